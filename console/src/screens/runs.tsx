// Runs: the list with its filters, which stand in the address.

import { useState } from "preact/hooks";

import { get, post, type Schemas } from "../api/client";
import { now, span } from "../format";
import { t } from "../i18n";
import { live, namespace } from "../live/document";
import { href, query, setQuery } from "../router";
import { confirmed } from "../ui/dialogs";
import { useFetched } from "../ui/fetching";
import { attempt, failureText, notify } from "../ui/notices";
import { Act, Chip, Empty, Failure, JobLink, Missing, Moment, NodeLink, RunLink, Table, Text, type Column } from "../ui/parts";

export type RunRow = Schemas["RunRow"];

const PAGE = 100;
const STATES = ["running", "waiting", "succeeded", "failed", "missed", "skipped", "killed", "lost"];

/** How long a run took, or has taken so far. */
export const Took = ({ run }: { run: { started?: string | null; ended?: string | null } }) => {
  if (!run.started) return <>–</>;
  const end = run.ended ? Date.parse(run.ended) : now.value;
  return <>{span(Math.max(0, end - Date.parse(run.started)))}</>;
};

/** Ends a run, if that is meant. */
export const killRun = async (run: string): Promise<void> => {
  const words = t.value;
  if (!(await confirmed(words.killAsk(run), words.killText, words.kill))) return;
  await attempt(words.killed(run), () => post("/api/v1/runs/{run}/kill", { keys: { run } }));
};

/** Whether a run has not ended. */
export const isOpen = (state: string): boolean => state === "running" || state === "waiting";

/** Columns for the runs of all jobs, of one job, or of one job with shards. */
export const runColumns = (about: "all" | "job" | "shards" = "all"): Column<RunRow>[] => {
  const words = t.value;
  const job: Column<RunRow> = {
    head: words.job, kind: "name",
    cell: (run) => (
      <>
        <JobLink name={run.job} />{" "}
        {live.value?.sharded[run.job] && <small>{words.shard} {run.shard}</small>}
      </>
    ),
  };
  const shard: Column<RunRow> = { head: words.shard, kind: "number", cell: (run) => run.shard };
  return [
    ...(about === "all" ? [job] : []),
    ...(about === "shards" ? [shard] : []),
    { head: words.state, cell: (run) => <RunLink run={run.run}><Chip state={run.state} /></RunLink> },
    { head: words.due, cell: (run) => <Moment at={run.due} /> },
    { head: words.took, kind: "number", cell: (run) => <Took run={run} /> },
    { head: words.node, cell: (run) => <NodeLink name={run.node} /> },
    { head: words.attempt, kind: "number", cell: (run) => run.attempt },
    { head: words.reason, kind: "words", cell: (run) => run.reason && <small><Text of={run.reason} /></small> },
    {
      head: words.actions, kind: "actions",
      cell: (run) => isOpen(run.state) && run.killable !== false && <Act label={words.kill} about={run.run} danger act={() => killRun(run.run)} />,
    },
  ];
};

/** What the address asks for. */
const filters = () => {
  const { job, state, node, since, until } = query.value;
  return { job, state, node, since: since ?? "24h", until };
};

export const Runs = () => {
  const words = t.value;
  const asked = filters();
  const wanted = { ...asked, since: asked.since === "all" ? undefined : asked.since, namespace: namespace.value, limit: PAGE };
  const key = `runs ${JSON.stringify(wanted)}`;
  const first = useFetched(key, (signal) => get("/api/v1/runs", { query: wanted, signal }), { live: true });
  const [older, setOlder] = useState<{ key: string; rows: RunRow[]; before: string | null }>({ key: "", rows: [], before: null });
  const rest = older.key === key ? older : undefined;
  const page = first.data;
  const before = rest ? rest.before : page?.before;
  const seen = new Set<string>();
  const rows = [...(page?.waiting ?? []), ...(page?.runs ?? []), ...(rest?.rows ?? [])].filter((run) => {
    const id = `${run.run}#${run.attempt}`;
    return seen.has(id) ? false : seen.add(id);
  });
  const showOlder = async () => {
    if (!before) return;
    try {
      const next = await get("/api/v1/runs", { query: { ...wanted, before } });
      setOlder({ key, rows: [...(rest?.rows ?? []), ...next.runs], before: next.before });
    } catch (error) {
      notify("bad", failureText(error));
    }
  };
  const exact = !["1h", "24h", "7d", "all"].includes(asked.since) || asked.until;
  return (
    <>
      <h1>{words.runs}</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>{words.job} <input type="search" value={asked.job ?? ""} onChange={(event) => setQuery({ job: event.currentTarget.value.trim() })} /></label>
        <label>
          {words.state}{" "}
          <select value={asked.state ?? ""} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
            <option value="">{words.anyState}</option>
            {STATES.map((state) => <option value={state} key={state}>{words.states[state] ?? state}</option>)}
          </select>
        </label>
        <label>{words.node} <input type="search" value={asked.node ?? ""} onChange={(event) => setQuery({ node: event.currentTarget.value.trim() })} /></label>
        <label>
          {words.whenLabel}{" "}
          <select value={exact ? "exact" : asked.since} onChange={(event) => setQuery({ since: event.currentTarget.value, until: undefined })}>
            {exact && <option value="exact">{asked.since} – {asked.until ?? words.now}</option>}
            {["1h", "24h", "7d"].map((since) => <option value={since} key={since}>{words.sinceHours[since]}</option>)}
            <option value="all">{words.sinceHours[""]}</option>
          </select>
        </label>
      </form>
      <Failure text={first.error} />
      <Missing nodes={page?.missing} />
      {page && rows.length === 0 && <Empty>{words.runsFound}</Empty>}
      {rows.length > 0 && (
        <section class="panel"><Table label={words.runs} columns={runColumns()} rows={rows} rowKey={(run) => `${run.run}#${run.attempt}`} /></section>
      )}
      {before && <p><Act label={words.more} act={showOlder} /></p>}
      {asked.job && <p><a href={href(["jobs", asked.job])}><Text of={asked.job} /></a></p>}
    </>
  );
};
