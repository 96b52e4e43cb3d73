// The health of the cluster: leases, clocks, commits, lateness.

import { get, type Schemas } from "../api/client";
import { t } from "../i18n";
import { useFetched } from "../ui/fetching";
import { Chip, Empty, Facts, Failure, Moment, NodeLink, Panel, Table, Text } from "../ui/parts";

type Row = Schemas["NodeHealthRow"];

const pair = (summary: Schemas["TimeSummary"] | null | undefined): string =>
  summary ? `${summary.p50_ms.toFixed(1)}, ${summary.p99_ms.toFixed(1)} ms` : "–";

export const Health = () => {
  const words = t.value;
  const found = useFetched("health", (signal) => get("/api/v1/cluster/health", { signal }), { every: 5_000 });
  const health = found.data;
  return (
    <>
      <h1>{words.health} {health && <Chip state={health.verdict} />}</h1>
      <Failure text={found.error} />
      {health && (
        <>
          <Panel title={words.reasons}>
            {health.reasons.length === 0 ? <Empty>{words.reasonsNone}</Empty> : (
              <Table
                label={words.reasons} rows={health.reasons.map((reason, n) => ({ ...reason, n }))} rowKey={(row) => String(row.n)}
                columns={[
                  { head: words.state, cell: (row) => <Chip state={row.verdict} /> },
                  { head: words.node, cell: (row) => <NodeLink name={row.node} /> },
                  { head: words.what, kind: "words", cell: (row) => <Text of={row.text} /> },
                ]}
              />
            )}
          </Panel>
          <Panel title={words.what}>
            <Facts
              of={[
                [words.engine, health.engine],
                [words.nodes, words.nodesOf(health.nodes_online, health.nodes_expected)],
                [words.tiles.verdict, words.tolerates(health.tolerated_losses)],
              ]}
            />
          </Panel>
          <Panel title={words.nodes}>
            <Table
              label={words.nodes} rows={health.nodes} rowKey={(row: Row) => row.name}
              columns={[
                { head: words.node, kind: "name", cell: (row) => <NodeLink name={row.name} /> },
                { head: words.state, cell: (row) => <><Chip state={row.state} /> <small><Text of={row.unreachable} /></small></> },
                { head: words.lease, kind: "number", cell: (row) => (row.measured?.lease.age_ms == null ? "–" : words.ofMs(row.measured.lease.age_ms)) },
                { head: words.clockOffset, kind: "number", cell: (row) => (row.measured?.clock.registry_offset_ms == null ? "–" : words.ofMs(row.measured.clock.registry_offset_ms)) },
                { head: words.commits, kind: "number", cell: (row) => pair(row.measured?.commits) },
                { head: words.lateness, kind: "number", cell: (row) => pair(row.measured?.lateness) },
                { head: words.slots, kind: "number", cell: (row) => (row.measured ? `${row.measured.slots_busy} / ${row.measured.slots}` : "–") },
                { head: words.missedBeats, kind: "number", cell: (row) => row.missed_heartbeats },
                { head: words.historyWaiting, kind: "number", cell: (row) => row.measured?.history_waiting ?? "–" },
                { head: words.goneSince, cell: (row) => <Moment at={row.lost_since} /> },
              ]}
            />
          </Panel>
        </>
      )}
    </>
  );
};
