// The nodes: what they own and may own, how they are loaded, and what would be if some died.

import { useState } from "preact/hooks";

import { get, post, type Schemas } from "../api/client";
import { t } from "../i18n";
import { href } from "../router";
import { confirmed } from "../ui/dialogs";
import { useFetched } from "../ui/fetching";
import { LineChart } from "../ui/line_chart";
import { attempt } from "../ui/notices";
import { Act, Chip, Empty, Facts, Failure, Moment, NodeLink, Panel, Table, Text, type Column } from "../ui/parts";
import { runColumns } from "./runs";

type Row = Schemas["NodeRow"];
type NodeVerb = "drain" | "undrain" | "cordon" | "uncordon";

const percent = (value: number | null): string => (value === null ? "–" : `${value.toFixed(0)} %`);
const score = (value: number | null): string => (value === null ? "–" : value.toFixed(2));

const labelsOf = (row: { labels?: unknown }): string =>
  Array.isArray(row.labels) ? row.labels.join(", ") : typeof row.labels === "string" ? row.labels : "";

const switchNode = async (name: string, verb: NodeVerb) => {
  const words = t.value;
  if (verb === "drain" && !(await confirmed(words.drainAsk(name), words.drainText, words.drain))) return;
  await attempt(words.done(words[verb], name), () => post("/api/v1/nodes/{name}/{verb}", { keys: { name, verb } as never }));
};

const Verbs = ({ row }: { row: Row }) => {
  const words = t.value;
  const verbs: NodeVerb[] = [row.drained || row.draining ? "undrain" : "drain", row.cordoned ? "uncordon" : "cordon"];
  return <>{verbs.map((verb) => <Act label={words[verb]} about={row.name} act={() => switchNode(row.name, verb)} key={verb} />)}</>;
};

/** How full a node is: what it owns of what it may own. */
const Fill = ({ held, quota }: { held: number; quota: number }) => (
  <span class="fill">
    <meter min={0} max={Math.max(1, quota)} value={held} aria-hidden="true" /> {held} / {quota}
  </span>
);

const nodeColumns = (): Column<Row>[] => {
  const words = t.value;
  return [
    { head: words.node, kind: "name", cell: (row) => <><NodeLink name={row.name} /> <small><Text of={labelsOf(row)} /></small></> },
    { head: words.state, cell: (row) => <><Chip state={row.state} /> {row.cordoned && row.state !== "cordoned" && <Chip state="cordoned" />}</> },
    { head: `${words.holds} / ${words.mayHold}`, cell: (row) => <Fill held={row.held} quota={row.quota} /> },
    { head: words.shards, kind: "number", cell: (row) => row.shards },
    { head: words.slots, kind: "number", cell: (row) => (row.busy === null ? row.slots : `${row.busy} / ${row.slots}`) },
    { head: words.load, kind: "number", cell: (row) => score(row.score) },
    { head: words.versionColumn, cell: (row) => row.version },
    { head: words.joined, cell: (row) => <Moment at={row.joined} /> },
    { head: words.actions, kind: "actions", cell: (row) => <Verbs row={row} /> },
  ];
};

const WhatIf = ({ names }: { names: string[] }) => {
  const words = t.value;
  const [dead, setDead] = useState<string[]>([]);
  const found = useFetched(dead.length > 0 ? `what if ${dead.join(" ")}` : undefined, (signal) =>
    get("/api/v1/nodes/balance", { query: { kill: dead.join(",") }, signal }));
  const toggle = (name: string, on: boolean) => setDead(on ? [...dead, name].sort() : dead.filter((one) => one !== name));
  const then = found.data?.then;
  return (
    <Panel title={words.whatIf}>
      <div class="padded">
        <p>{words.whatIfText}</p>
        <p class="choices">
          {names.map((name) => (
            <label class="check" key={name}>
              <input type="checkbox" checked={dead.includes(name)} onChange={(event) => toggle(name, event.currentTarget.checked)} /> <Text of={name} />
            </label>
          ))}
        </p>
        <Failure text={found.error} />
        {then && found.data && (
          <>
            <p><strong>{then.covers ? words.wouldCover : words.wouldNotCover(then.short)}</strong></p>
            <ul class="plain">{found.data.warnings.map((text) => <li key={text}><Text of={text} /></li>)}</ul>
          </>
        )}
      </div>
      {found.data && then && (
        <Table
          label={words.whatIf} rows={found.data.rows} rowKey={(row) => row.name}
          columns={[
            { head: words.node, kind: "name", cell: (row) => <Text of={row.name} /> },
            { head: words.holds, kind: "number", cell: (row) => row.held },
            { head: words.wouldHold, kind: "number", cell: (row) => (row.then ? `${row.then.held} / ${row.then.quota}` : "–") },
          ]}
        />
      )}
    </Panel>
  );
};

export const Nodes = () => {
  const words = t.value;
  const found = useFetched("nodes", (signal) => get("/api/v1/nodes", { signal }), { live: true, every: 15_000 });
  const page = found.data;
  return (
    <>
      <h1>{words.nodes}</h1>
      <Failure text={found.error} />
      {page?.warnings.map((text) => <p class="failure" key={text}><Text of={text} /></p>)}
      {page && <section class="panel"><Table label={words.nodes} columns={nodeColumns()} rows={page.nodes} rowKey={(row) => row.name} /></section>}
      {page && page.gone.length > 0 && (
        <Panel title={words.goneNodes}>
          <Table
            label={words.goneNodes} rows={page.gone} rowKey={(row) => row.name}
            columns={[
              { head: words.node, kind: "name", cell: (row) => <NodeLink name={row.name} /> },
              { head: words.state, cell: (row) => <Chip state={row.state} /> },
              { head: words.goneSince, cell: (row) => <Moment at={row.gone_since} /> },
              { head: words.reason, kind: "words", cell: (row) => <Text of={row.left ?? "–"} /> },
            ]}
          />
        </Panel>
      )}
      {page && page.nodes.length > 0 && <WhatIf names={page.nodes.map((row) => row.name)} />}
    </>
  );
};

const LoadChart = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched(`load ${name}`, (signal) => get("/api/v1/nodes/{name}/load", { keys: { name }, query: { since: "24h", limit: 1_440 }, signal }), { every: 60_000 });
  const rows = [...(found.data?.load ?? [])].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  return (
    <Panel title={words.loadOver}>
      <Failure text={found.error} />
      {found.data && rows.length === 0 && <Empty>{words.none}</Empty>}
      {rows.length > 0 && (
        <div class="padded">
          <LineChart
            label={words.loadOver} at={rows.map((row) => Date.parse(row.at))}
            series={[{ label: words.load, values: rows.map((row) => row.score), colour: "--accent" }]}
          />
        </div>
      )}
    </Panel>
  );
};

export const Node = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched("nodes", (signal) => get("/api/v1/nodes", { signal }), { live: true, every: 15_000 });
  const runs = useFetched(`runs of ${name}`, (signal) => get("/api/v1/runs", { query: { node: name, limit: 20 }, signal }), { live: true });
  const row = [...(found.data?.nodes ?? []), ...(found.data?.gone ?? [])].find((one) => one.name === name);
  return (
    <>
      <h1><a href={href(["nodes"])}>{words.nodes}</a> / <Text of={name} /> {row && <Chip state={row.state} />}</h1>
      <Failure text={found.error} />
      {found.data && !row && <Empty>{words.nodeGone}</Empty>}
      {row && (
        <>
          {row.gone_since === null && <div class="verbs"><Verbs row={row} /></div>}
          <Panel title={words.what}>
            <Facts
              of={[
                [words.address, <code>{row.address || "–"}</code>],
                [`${words.holds} / ${words.mayHold}`, <Fill held={row.held} quota={row.quota} />],
                [words.shards, row.shards],
                [words.slots, row.busy === null ? row.slots : `${row.busy} / ${row.slots}`],
                [words.load, score(row.score)],
                [words.cpu, percent(row.cpu)],
                [words.memory, percent(row.memory)],
                [words.labels, <Text of={labelsOf(row) || "–"} />],
                [words.versionColumn, row.version],
                [words.joined, <Moment at={row.joined} />],
                ...(row.gone_since ? [[words.goneSince, <><Moment at={row.gone_since} /> <Text of={row.left} /></>] as [string, preact.ComponentChildren]] : []),
              ]}
            />
          </Panel>
          <LoadChart name={name} />
        </>
      )}
      <Panel title={words.latestRuns} aside={<a href={href(["runs"], { node: name, since: "all" })}>{words.all}</a>}>
        <Failure text={runs.error} />
        {runs.data && runs.data.runs.length === 0 && <Empty>{words.runsFound}</Empty>}
        {runs.data && runs.data.runs.length > 0 && (
          <Table label={words.latestRuns} columns={runColumns()} rows={runs.data.runs} rowKey={(run) => `${run.run}#${run.attempt}`} />
        )}
      </Panel>
    </>
  );
};
