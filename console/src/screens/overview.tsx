// The overview: is the cluster well, did everything run, what needs a person, what comes next.

import { get, type Schemas } from "../api/client";
import { minute, number } from "../format";
import { t } from "../i18n";
import { live, missing, namespace, nodes, runs } from "../live/document";
import { href } from "../router";
import { Bars, Strip, type Cell } from "../ui/charts";
import { useFetched } from "../ui/fetching";
import { Chip, Empty, Failure, JobLink, Missing, Moment, NodeLink, Panel, RunLink, Table, Text } from "../ui/parts";
import { runColumns } from "./runs";

const HOUR = 3_600_000;
const HOURS = 24;
/** So many troubled jobs have a strip of their own. */
const TROUBLED = 8;
/** A bar of the forecast covers so many minutes. */
const STEP_MINUTES = 15;

type Counts = Schemas["SummaryCounts"];

const cellOf = (at: number, counts: Counts | undefined, link: string): Cell => {
  const { expected = 0, ran = 0, failed = 0, missed: lost = 0, late = 0 } = counts ?? {};
  const state = failed + lost > 0 ? "bad" : late > 0 ? "late" : ran > 0 ? "good" : "none";
  return { state, says: t.value.cell(minute(at), expected, ran, failed, lost, late), href: link };
};

/** One cell for each of the last hours, the present one last. */
const cellsOf = (page: Schemas["SummaryPage"], job: string | undefined): Cell[] => {
  const byHour = new Map(page.rows.map((row) => [Date.parse(row.at ?? ""), row.counts]));
  const present = Math.floor(Date.now() / HOUR) * HOUR;
  return Array.from({ length: HOURS }, (_, n) => {
    const at = present - (HOURS - 1 - n) * HOUR;
    const span = { since: new Date(at).toISOString(), until: new Date(at + HOUR).toISOString() };
    return cellOf(at, byHour.get(at), href(["runs"], { job, ...span }));
  });
};

interface Record24 {
  all: Cell[];
  troubled: { name: string; cells: Cell[] }[];
  missing: string[];
}

const fetchRecord = async (of: string, signal: AbortSignal): Promise<Record24> => {
  const query = { namespace: of, since: `${HOURS - 1}h` };
  const [all, troubled] = await Promise.all([
    get("/api/v1/summary", { query: { ...query, by: "hour" }, signal }),
    get("/api/v1/summary", { query: { ...query, by: "job", sort: "trouble", limit: TROUBLED }, signal }),
  ]);
  const names = troubled.rows.flatMap((row) => row.job ?? []);
  const pages = await Promise.all(names.map((job) => get("/api/v1/summary", { query: { since: query.since, by: "hour", job }, signal })));
  return {
    all: cellsOf(all, undefined),
    troubled: names.map((name, n) => ({ name, cells: cellsOf(pages[n] as Schemas["SummaryPage"], name) })),
    missing: all.missing,
  };
};

const Tile = ({ name, value, state, note, to }: { name: string; value: string; state?: string | undefined; note?: string; to: string[] }) => (
  <a class="tile" href={href(to)} data-state={state}>
    <span class="tile-name">{name}</span>
    <strong>{value}</strong>
    {note && <small>{note}</small>}
  </a>
);

const Tiles = ({ attention }: { attention: number | undefined }) => {
  const words = t.value;
  const health = useFetched("health", (signal) => get("/api/v1/cluster/health", { signal }), { every: 10_000 }).data;
  const here = live.value;
  const verdictState = health && { ok: "good", degraded: "late", failing: "bad" }[health.verdict];
  return (
    <div class="tiles">
      <Tile
        name={words.tiles.verdict} to={["health"]} state={verdictState}
        value={health ? (words.verdicts[health.verdict] ?? health.verdict) : "…"}
        {...(health ? { note: words.tolerates(health.tolerated_losses) } : {})}
      />
      <Tile name={words.tiles.attention} to={[]} value={attention === undefined ? "…" : number(attention)} state={attention ? "bad" : undefined} />
      <Tile name={words.tiles.running} to={["runs"]} value={here ? number(here.running) : "…"} />
      <Tile name={words.tiles.jobs} to={["jobs"]} value={here ? number(here.enabled) : "…"} />
      <Tile
        name={words.tiles.nodes} to={["nodes"]}
        value={health ? words.nodesOf(health.nodes_online, health.nodes_expected) : String(nodes.value.length)}
        state={health && health.nodes_online < health.nodes_expected ? "late" : undefined}
      />
    </div>
  );
};

const attentionColumns = () => {
  const words = t.value;
  return [
    { head: words.state, cell: (row: Schemas["AttentionRow"]) => <Chip state={row.kind} word={words.attentionKinds[row.kind] ?? row.kind} /> },
    {
      head: words.what, kind: "words" as const,
      cell: (row: Schemas["AttentionRow"]) => (
        <>
          {row.job ? <JobLink name={row.job} /> : row.node ? <NodeLink name={row.node} /> : null} <Text of={row.text} />
          {row.run && <> <RunLink run={row.run}>{words.trail}</RunLink></>}
        </>
      ),
    },
    { head: words.since, cell: (row: Schemas["AttentionRow"]) => <Moment at={row.since} /> },
  ];
};

const Forecast = () => {
  const words = t.value;
  const found = useFetched(
    `forecast ${namespace.value}`,
    (signal) => get("/api/v1/forecast", { query: { hours: HOURS, step: "minute", namespace: namespace.value }, signal }),
    { every: 60_000 },
  );
  const plan = found.data;
  if (!plan) return <Panel title={words.forecast}><Failure text={found.error} /></Panel>;
  const begin = Date.parse(plan.begin);
  const bars = Array.from({ length: Math.ceil(plan.fires.length / STEP_MINUTES) }, (_, n) => {
    const size = plan.fires.slice(n * STEP_MINUTES, (n + 1) * STEP_MINUTES).reduce((sum, fires) => sum + fires, 0);
    const at = begin + n * STEP_MINUTES * 60_000;
    return { size, says: words.forecastBar(minute(at), minute(at + STEP_MINUTES * 60_000), size) };
  });
  const peaks = plan.peaks.filter((peak) => peak.jobs > 1).slice(0, 3);
  return (
    <Panel title={words.forecast} aside={<small>{words.forecastSum(plan.total, plan.jobs)}</small>}>
      <div class="padded">
        <Bars label={words.forecastSum(plan.total, plan.jobs)} bars={bars} />
        <div class="axis">
          {[0, 6, 12, 18, 24].map((hour) => <span key={hour}>{minute(begin + hour * HOUR)}</span>)}
        </div>
        {peaks.length > 0 && (
          <>
            <h3>{words.collisions}</h3>
            <ul class="plain">
              {peaks.map((peak) => (
                <li key={peak.at}>
                  <Moment at={peak.at} /> <Text of={words.collision(peak.fires, `${peak.names.join(", ")}${peak.jobs > peak.names.length ? ", …" : ""}`)} />
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Panel>
  );
};

export const Overview = () => {
  const words = t.value;
  const record = useFetched(`record ${namespace.value}`, (signal) => fetchRecord(namespace.value, signal), { every: 20_000 });
  const attention = useFetched(
    `attention ${namespace.value}`,
    (signal) => get("/api/v1/attention", { query: { namespace: namespace.value, limit: 50 }, signal }),
    { every: 10_000 },
  );
  const counted = attention.data && Object.values(attention.data.counts).reduce((sum, n) => sum + n, 0);
  const jobless = live.value && Object.keys(live.value.jobs).length === 0;
  return (
    <>
      <h1>{words.overview}</h1>
      <Tiles attention={counted} />
      {jobless && (
        <Panel title={words.guideTitle}>
          <ol class="padded">{words.guide.map((step) => <li key={step}><code>{step}</code></li>)}</ol>
        </Panel>
      )}
      <Panel title={words.didAllRun} aside={<small>{words.lastDay}</small>}>
        <Failure text={record.error} />
        {record.data && (
          <div class="padded strips">
            <div class="strip-row">
              <a href={href(["runs"])}>{words.allJobs}</a>
              <Strip label={words.allJobs} cells={record.data.all} />
            </div>
            {record.data.troubled.map(({ name, cells }) => (
              <div class="strip-row" key={name}>
                <JobLink name={name} />
                <Strip label={name} cells={cells} />
              </div>
            ))}
            <p class="legend">
              {(["good", "late", "bad", "none"] as const).map((state) => (
                <span key={state}><span class="cell" data-state={state} /> {words.legend[state]}</span>
              ))}
              {record.data.troubled.length === 0 && <span>{words.troubleNone}</span>}
            </p>
            <Missing nodes={record.data.missing} />
          </div>
        )}
      </Panel>
      <Panel title={words.attention}>
        <Failure text={attention.error} />
        {attention.data && attention.data.attention.length === 0 && <Empty>{words.attentionNone}</Empty>}
        {attention.data && attention.data.attention.length > 0 && (
          <Table
            label={words.attention} columns={attentionColumns()} rows={attention.data.attention}
            rowKey={(row) => `${row.kind} ${row.job ?? ""} ${row.node ?? ""} ${row.run ?? ""}`}
          />
        )}
      </Panel>
      <Forecast />
      <Panel title={words.latestRuns} aside={<a href={href(["runs"])}>{words.runs}</a>}>
        <Missing nodes={missing.value} />
        {runs.value.length === 0 ? <Empty>{words.runsNone}</Empty> : (
          <Table label={words.latestRuns} columns={runColumns()} rows={runs.value.slice(0, 12)} rowKey={(run) => `${run.run}#${run.attempt}`} />
        )}
      </Panel>
    </>
  );
};
