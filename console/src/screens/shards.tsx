// The shards of a job, and the nodes that have them.

import { get, post, type Schemas } from "../api/client";
import { t } from "../i18n";
import { runNow, switchJob } from "../jobs";
import { confirmed } from "../ui/dialogs";
import { useFetched } from "../ui/fetching";
import { attempt } from "../ui/notices";
import { Act, Chip, Failure, Moment, NodeLink, Panel, Table, Text } from "../ui/parts";

type Row = Schemas["ShardRangeRow"];
type Assignment = Schemas["AssignmentRow"];

const switchShards = async (name: string, set: string, verb: "enable" | "disable") => {
  const words = t.value;
  const about = `${words.shards} ${set}`;
  if (verb === "disable" && !(await confirmed(words.disableAsk(about), words.disableText, words.disable))) return;
  await attempt(words.done(words[verb], about), () =>
    post("/api/v1/jobs/{name}/shards/{set}/{verb}", { keys: { name, set, verb } }));
};

export const Shards = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched(`shards ${name}`, (signal) =>
    get("/api/v1/jobs/{name}/shards", { keys: { name }, query: { fold: true }, signal }), { live: true });
  const page = found.data as Schemas["ShardPage2"] | undefined;
  if (!page) return <Panel title={words.shards}><Failure text={found.error} /></Panel>;
  const holders = page.nodes.filter((node) => node.shards !== "").length;
  return (
    <Panel title={words.shards} aside={<small>{words.shardLine(page.total, holders, page.leader ?? words.noLeader)}</small>}>
      <Table
        label={words.nodes} rows={page.nodes} rowKey={(row: Assignment) => row.node}
        columns={[
          { head: words.node, kind: "name", cell: (row) => <NodeLink name={row.node} /> },
          { head: words.state, cell: (row) => <><Chip state={row.state} /> {row.paused && row.state !== "paused" && <Chip state="paused" />}</> },
          { head: words.shards, kind: "words", cell: (row) => row.shards || "–" },
          {
            head: words.actions, kind: "actions",
            cell: (row) => (
              <>
                {row.shards !== "" && row.state !== "gone" && <Act label={words.run} about={row.node} act={() => runNow(name, row.node)} />}
                <Act label={row.paused ? words.resume : words.pause} about={row.node} act={() => switchJob(name, row.paused ? "resume" : "pause", row.node)} />
                <Act label={row.disabled ? words.enable : words.disable} about={row.node} act={() => switchJob(name, row.disabled ? "enable" : "disable", row.node)} />
              </>
            ),
          },
        ]}
      />
      <Table
        label={words.shards} rows={page.shards} rowKey={(row: Row) => row.shards}
        columns={[
          { head: words.shard, kind: "name", cell: (row) => row.shards },
          { head: words.node, cell: (row) => <NodeLink name={row.node} /> },
          { head: words.state, cell: (row) => <><Chip state={row.state} /> {row.failed_over && <small>{words.failedOver}</small>}</> },
          { head: words.due, cell: (row) => (row.fire?.startsWith("ask-") ? row.fire : <Moment at={row.due} />) },
          { head: words.attempt, kind: "number", cell: (row) => row.attempt ?? "–" },
          { head: words.parameter, kind: "words", cell: (row) => <Text of={row.parameter || "–"} /> },
          { head: words.began, cell: (row) => <Moment at={row.began} /> },
          {
            head: words.actions, kind: "actions",
            cell: (row) => {
              const verb = row.state === "off" ? "enable" : "disable";
              return <Act label={words[verb]} about={`${words.shards} ${row.shards}`} act={() => switchShards(name, row.shards, verb)} />;
            },
          },
        ]}
      />
    </Panel>
  );
};
