// One run: its attempts, why it ran where and when it did, and its output.

import { CallError, get, post, type Schemas } from "../api/client";
import { t } from "../i18n";
import { go, href } from "../router";
import { confirmed } from "../ui/dialogs";
import { useFetched } from "../ui/fetching";
import { failureText, notify } from "../ui/notices";
import { Act, Chip, Empty, Facts, Failure, JobLink, Missing, Moment, NodeLink, Panel, RunLink, Table, Text } from "../ui/parts";
import { Log } from "./log";
import { isOpen, killRun, Took } from "./runs";

type Detail = Schemas["RunDetail"];

const runAgain = async (run: string) => {
  const words = t.value;
  if (!(await confirmed(words.retry, words.retryText, words.retry))) return;
  try {
    const answer = await post("/api/v1/runs/{run}/restart", { keys: { run } });
    const made = (answer as { run?: string }).run;
    notify("good", words.requested(made ?? run));
    if (made) go(["runs", made]);
  } catch (error) {
    notify("bad", failureText(error));
  }
};

const Attempts = ({ detail }: { detail: Detail }) => {
  const words = t.value;
  const more = new Map(detail.details.map((one) => [`${one.run}#${one.attempt}`, one]));
  const several = new Set(detail.attempts.map((attempt) => attempt.run)).size > 1;
  return (
    <Panel title={words.attempts}>
      <Missing nodes={detail.missing} />
      <Table
        label={words.attempts} rows={detail.attempts} rowKey={(row) => `${row.run}#${row.attempt}`}
        columns={[
          ...(several ? [{ head: words.shard, cell: (row: Schemas["RunRow"]) => <RunLink run={row.run}>{row.shard}</RunLink> }] : []),
          { head: words.attempt, kind: "number", cell: (row) => row.attempt },
          { head: words.state, cell: (row) => <Chip state={row.state} /> },
          { head: words.node, cell: (row) => <NodeLink name={row.node} /> },
          { head: words.due, cell: (row) => <Moment at={row.due} /> },
          { head: words.started, cell: (row) => <Moment at={row.started} /> },
          { head: words.took, kind: "number", cell: (row) => <Took run={row} /> },
          { head: words.exitCode, kind: "number", cell: (row) => more.get(`${row.run}#${row.attempt}`)?.code ?? "–" },
          { head: words.reason, kind: "words", cell: (row) => <small><Text of={row.reason} /></small> },
        ]}
      />
    </Panel>
  );
};

const Trail = ({ run }: { run: string }) => {
  const words = t.value;
  const found = useFetched(`trail ${run}`, (signal) => get("/api/v1/runs/{run}/explain", { keys: { run }, signal }), { live: true });
  return (
    <Panel title={words.trail}>
      <Failure text={found.error} />
      {found.data && (
        <>
          <p class="padded"><strong><Text of={found.data.says} /></strong></p>
          <ol class="trail">
            {found.data.points.map((point, n) => (
              <li key={n}><span class="trail-about"><Text of={point.about} /></span> <Text of={point.says} /></li>
            ))}
          </ol>
        </>
      )}
    </Panel>
  );
};

export const Run = ({ run }: { run: string }) => {
  const words = t.value;
  const found = useFetched(`run ${run}`, async (signal) => {
    try {
      return await get("/api/v1/runs/{run}", { keys: { run }, signal });
    } catch (error) {
      if (error instanceof CallError && error.status === 404) return "gone" as const;
      throw error;
    }
  }, { live: true });
  const detail = found.data === "gone" ? undefined : found.data;
  const last = detail?.attempts.at(-1);
  const job = detail?.job ?? last?.job ?? run.split(":")[0] ?? run;
  const state = detail?.state ?? last?.state;
  const shards = detail?.shards as Record<string, number> | null | undefined;
  const several = detail !== undefined && new Set(detail.attempts.map((attempt) => attempt.run)).size > 1;
  return (
    <>
      <h1><a href={href(["runs"])}>{words.runs}</a> / <Text of={run} /> {state && <Chip state={state} />}</h1>
      <Failure text={found.error} />
      {found.data === "gone" && <Empty>{words.runGone}</Empty>}
      <div class="verbs">
        {state && isOpen(state) && <Act label={words.kill} about={run} danger act={() => killRun(run)} />}
        {state && !isOpen(state) && <Act label={words.retry} about={run} act={() => runAgain(run)} />}
      </div>
      <Panel title={words.what}>
        <Facts
          of={[
            [words.job, <JobLink name={job} />],
            [words.due, <Moment at={detail?.due ?? last?.due} />],
            [words.started, <Moment at={detail?.started ?? last?.started} />],
            [words.took, <Took run={{ started: detail?.started ?? last?.started ?? null, ended: detail?.ended ?? last?.ended ?? null }} />],
            ...(shards ? [[words.shards, words.shardsOf(shards["succeeded"] ?? 0, Object.values(shards).reduce((sum, n) => sum + n, 0))] as [string, string]] : []),
            ...(detail?.parameters ? [[words.parameters, <code><Text of={JSON.stringify(detail.parameters)} /></code>] as [string, preact.ComponentChildren]] : []),
            [words.reason, <Text of={detail?.reason ?? last?.reason ?? "–"} />],
          ]}
        />
      </Panel>
      {detail && detail.attempts.length > 0 && <Attempts detail={detail} />}
      {last && !several && <Log run={last.run} attempts={detail?.attempts ?? []} />}
      {found.data !== "gone" && <Trail run={several && last ? last.run : run} />}
    </>
  );
};
