// One job: how it stands, what it did and will do, its shards, its versions.

import { useState } from "preact/hooks";

import { CallError, get, post, remove, type Schemas } from "../api/client";
import { clock, inZone, span, zone } from "../format";
import { t } from "../i18n";
import { runNow, switchJob, toggleOf } from "../jobs";
import { go, href } from "../router";
import { shellWord, tomlOf } from "../toml";
import { Bars } from "../ui/charts";
import { confirmed } from "../ui/dialogs";
import { useFetched } from "../ui/fetching";
import { attempt } from "../ui/notices";
import { Act, Chip, Copy, Empty, Facts, Failure, Missing, Moment, NodeLink, Panel, Table, Text } from "../ui/parts";
import { Due, Rules } from "./jobs";
import { runColumns } from "./runs";
import { Shards } from "./shards";

const NEXT = 8;
const LATEST = 30;

type Detail = Schemas["JobDetail"];

/** The rules of a declaration as the list shows them. */
const rulesOf = (job: Schemas["Job"]): string => {
  const rules = (job as { schedule?: string | string[] }).schedule;
  return Array.isArray(rules) ? rules.join("; ") : (rules ?? "");
};

const commandOf = (job: Schemas["Job"]): string => {
  if (job.http) return `${job.http.method ?? "GET"} ${job.http.url}`;
  if (job.function) return job.function;
  const { command } = job;
  return typeof command === "string" ? command : (command ?? []).map(shellWord).join(" ");
};

const deleteJob = async (name: string) => {
  const words = t.value;
  if (!(await confirmed(words.removeAsk(name), words.removeText, words.remove))) return;
  if (await attempt(words.done(words.remove, name), () => remove("/api/v1/jobs/{name}", { keys: { name } }))) go(["jobs"]);
};

const Verbs = ({ job }: { job: Detail }) => {
  const words = t.value;
  const verb = toggleOf(job);
  return (
    <div class="verbs">
      <Act label={words.run} about={job.name} main act={() => runNow(job.name)} />
      <a class="button" href={href(["jobs", job.name, "edit"])}>{words.edit}</a>
      <Act label={words[verb]} about={job.name} act={() => switchJob(job.name, verb)} />
      {!job.disabled && <Act label={words.disable} about={job.name} act={() => switchJob(job.name, "disable")} />}
      <Act label={words.remove} about={job.name} danger act={() => deleteJob(job.name)} />
    </div>
  );
};

const Declaration = ({ detail }: { detail: Detail }) => {
  const words = t.value;
  const { job } = detail;
  const labels = Object.entries(job.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const timezone = job.timezone ?? "UTC";
  const body = JSON.stringify(job);
  const path = `/api/v1/jobs/${encodeURIComponent(detail.name)}`;
  const curl = `curl -X PUT -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d ${shellWord(body)} ${shellWord(new URL(`.${path}`, location.href.split("#")[0]).href)}`;
  return (
    <Panel
      title={words.inWords}
      aside={
        <>
          <Copy label={words.copyToml} text={tomlOf(job)} />
          <Copy label={words.copyCli} text={`evenkeel job show ${shellWord(detail.name)} -o toml`} />
          <Copy label={words.copyCurl} text={curl} />
        </>
      }
    >
      <Facts
        of={[
          [words.schedule, <Rules job={{ schedule: rulesOf(job), timezone }} />],
          [words.next, <Due job={detail} />],
          [words.owner, <NodeLink name={detail.owner} />],
          [words.placement, <>{job.placement ?? "claimed"} {job.shadow && <Chip state="shadow" />}</>],
          [words.command, <code class="wide"><Text of={commandOf(job)} /></code>],
          ...(job.description ? [[words.description, <Text of={job.description} />] as [string, preact.ComponentChildren]] : []),
          ...(labels.length > 0 ? [[words.labels, <Text of={labels.join(", ")} />] as [string, preact.ComponentChildren]] : []),
          [words.version, <>{detail.version} <small><Moment at={detail.since} /></small></>],
        ]}
      />
      {detail.switches && detail.switches.length > 0 && (
        <div class="padded">
          <h3>{words.switches}</h3>
          <ul class="plain">
            {detail.switches.map((one, n) => (
              <li key={n}>
                <Text of={words.switchText([one.switch, one.node, one.shards].filter(Boolean).join(" "), one.by ?? "–")} /> <Moment at={one.since} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
};

const NextFires = ({ name, timezone }: { name: string; timezone: string }) => {
  const words = t.value;
  const found = useFetched(`next ${name}`, (signal) => get("/api/v1/jobs/{name}/next", { keys: { name }, query: { n: NEXT }, signal }), { every: 30_000 });
  const rows = (found.data?.next ?? []).map((at, n) => ({ at, notes: found.data?.notes[n] ?? [] }));
  const both = timezone !== zone;
  return (
    <Panel title={words.nextFires}>
      <Failure text={found.error} />
      {found.data && rows.length === 0 && <Empty>{words.none}</Empty>}
      {rows.length > 0 && (
        <Table
          label={words.nextFires} rows={rows} rowKey={(row) => row.at}
          columns={[
            { head: words.when, cell: ({ at }) => <Moment at={at} /> },
            { head: `${words.inJobZone} (${timezone})`, cell: ({ at }) => inZone(Date.parse(at), timezone) },
            ...(both ? [{ head: `${words.inYourZone} (${zone})`, cell: ({ at }: { at: string }) => inZone(Date.parse(at), zone) }] : []),
            { head: words.notes, kind: "words", cell: ({ notes }) => <Text of={notes.join("; ")} /> },
          ]}
        />
      )}
    </Panel>
  );
};

const History = ({ name, sharded }: { name: string; sharded: boolean }) => {
  const words = t.value;
  const found = useFetched(`history ${name}`, (signal) => get("/api/v1/runs", { query: { job: name, limit: LATEST }, signal }), { live: true });
  const runs = found.data?.runs ?? [];
  const bars = [...runs].reverse().filter((run) => run.started && run.ended).map((run) => {
    const ms = Math.max(1, Date.parse(run.ended ?? "") - Date.parse(run.started ?? ""));
    const says = words.durationBar(words.states[run.state] ?? run.state, span(ms), clock(Date.parse(run.due)));
    return { size: ms, says, state: run.state, href: href(["runs", run.run]) };
  });
  return (
    <Panel title={words.recentRuns} aside={<a href={href(["runs"], { job: name, since: "all" })}>{words.all}</a>}>
      <Failure text={found.error} />
      <Missing nodes={found.data?.missing} />
      {found.data && runs.length === 0 && <Empty>{words.runsFound}</Empty>}
      {bars.length > 1 && <div class="padded"><Bars label={words.durations} bars={bars} height={48} /></div>}
      {runs.length > 0 && (
        <Table
          label={words.recentRuns} columns={runColumns(sharded ? "shards" : "job")} rows={[...(found.data?.waiting ?? []), ...runs].slice(0, 15)}
          rowKey={(run) => `${run.run}#${run.attempt}`}
        />
      )}
    </Panel>
  );
};

const written = (value: unknown): string => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

const Diff = ({ name, version }: { name: string; version: number }) => {
  const words = t.value;
  const found = useFetched(`diff ${name} ${version}`, (signal) =>
    get("/api/v1/jobs/{name}/versions/{version}", { keys: { name, version: String(version) }, signal }));
  if (!found.data) return <Failure text={found.error} />;
  return (
    <Table
      label={words.versionOf(version)} rows={found.data.changes} rowKey={(row) => row.field}
      columns={[
        { head: words.fields, kind: "name", cell: (row) => <code>{row.field}</code> },
        { head: words.was, kind: "words", cell: (row) => <del><Text of={written(row.old)} /></del> },
        { head: words.becomes, kind: "words", cell: (row) => <ins><Text of={written(row.new)} /></ins> },
      ]}
    />
  );
};

const rollBack = async (name: string, version: number) => {
  const words = t.value;
  if (!(await confirmed(words.rollbackAsk(name, version), words.rolledBack(version), words.rollback))) return;
  await attempt(words.rolledBack(version), () => post("/api/v1/jobs/{name}/rollback", { keys: { name }, body: { version } }));
};

const Versions = ({ name, present }: { name: string; present: number }) => {
  const words = t.value;
  const [open, setOpen] = useState<number | undefined>(undefined);
  const found = useFetched(`versions ${name} ${present}`, (signal) =>
    get("/api/v1/jobs/{name}/versions", { keys: { name }, query: { limit: 20 }, signal }));
  return (
    <Panel title={words.versions}>
      <Failure text={found.error} />
      <Missing nodes={found.data?.missing} />
      {found.data && (
        <Table
          label={words.versions} rows={found.data.versions} rowKey={(row) => String(row.version)}
          columns={[
            { head: words.version, cell: (row) => <>{row.version} {row.current && <Chip state="ok" word={words.present} />}</> },
            { head: words.when, cell: (row) => <Moment at={row.at} /> },
            { head: words.who, cell: (row) => <Text of={row.who ?? "–"} /> },
            { head: words.change, cell: (row) => <Text of={row.change} /> },
            { head: words.fields, kind: "words", cell: (row) => <Text of={(row.fields ?? []).join(", ")} /> },
            {
              head: words.actions, kind: "actions",
              cell: (row) => (
                <>
                  <button type="button" aria-expanded={open === row.version} onClick={() => setOpen(open === row.version ? undefined : row.version)}>{words.showDiff}</button>
                  {!row.current && <Act label={words.rollback} about={words.versionOf(row.version)} act={() => rollBack(name, row.version)} />}
                </>
              ),
            },
          ]}
        />
      )}
      {open !== undefined && <div class="padded"><h3>{words.versionOf(open)}</h3><Diff name={name} version={open} /></div>}
    </Panel>
  );
};

const Why = ({ name }: { name: string }) => {
  const words = t.value;
  const [open, setOpen] = useState(false);
  const found = useFetched(open ? `why ${name}` : undefined, (signal) => get("/api/v1/jobs/{name}/explain", { keys: { name }, signal }), { live: true });
  return (
    <Panel title={words.explain} aside={<button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>{words.why}</button>}>
      <Failure text={found.error} />
      {open && found.data && (
        <>
          <p class="padded"><strong><Text of={found.data.says} /></strong></p>
          <Table
            label={words.explain} rows={found.data.points.map((point, n) => ({ ...point, n }))} rowKey={(row) => String(row.n)}
            columns={[
              { head: words.what, cell: (row) => <Text of={row.about} /> },
              { head: words.text, kind: "words", cell: (row) => <Text of={row.says} /> },
            ]}
          />
        </>
      )}
    </Panel>
  );
};

export const Job = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched(`job ${name}`, async (signal) => {
    try {
      return await get("/api/v1/jobs/{name}", { keys: { name }, signal });
    } catch (error) {
      if (error instanceof CallError && error.status === 404) return "gone" as const;
      throw error;
    }
  }, { live: true });
  const detail = found.data;
  const sharded = detail !== undefined && detail !== "gone" && ["sharded", "broadcast"].includes(detail.job.placement ?? "");
  return (
    <>
      <h1><a href={href(["jobs"])}>{words.jobs}</a> / <Text of={name} /></h1>
      <Failure text={found.error} />
      {detail === "gone" && <Empty>{words.jobGone}</Empty>}
      {detail && detail !== "gone" && (
        <>
          <Verbs job={detail} />
          <Declaration detail={detail} />
          <NextFires name={name} timezone={detail.job.timezone ?? "UTC"} />
          {sharded && <Shards name={name} />}
          <History name={name} sharded={sharded} />
          <Why name={name} />
          <Versions name={name} present={detail.version} />
        </>
      )}
    </>
  );
};
