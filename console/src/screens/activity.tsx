// What happened: events of the nodes, and what people and programs changed.

import { useState } from "preact/hooks";

import { get, type Schemas } from "../api/client";
import { t } from "../i18n";
import { namespace } from "../live/document";
import { href, query } from "../router";
import { useFetched } from "../ui/fetching";
import { failureText, notify } from "../ui/notices";
import { Act, Chip, Empty, Failure, Missing, Moment, NodeLink, Table, Text } from "../ui/parts";

type EventRow = Schemas["EventRow"];
type AuditRow = Schemas["AuditRow"];

const PAGE = 100;

/** Rows of the first page, which is fetched again and again, and of older pages. */
const useOlder = <T,>(key: string, before: string | null | undefined, fetchOlder: (before: string) => Promise<{ rows: T[]; before: string | null }>) => {
  const [older, setOlder] = useState<{ key: string; rows: T[]; before: string | null }>({ key: "", rows: [], before: null });
  const rest = older.key === key ? older : undefined;
  const next = rest ? rest.before : before;
  const more = async () => {
    if (!next) return;
    try {
      const page = await fetchOlder(next);
      setOlder({ key, rows: [...(rest?.rows ?? []), ...page.rows], before: page.before });
    } catch (error) {
      notify("bad", failureText(error));
    }
  };
  return { rows: rest?.rows ?? [], next, more };
};

const Events = () => {
  const words = t.value;
  const asked = { namespace: namespace.value, limit: PAGE };
  const key = `events ${namespace.value}`;
  const found = useFetched(key, (signal) => get("/api/v1/events", { query: asked, signal }), { live: true });
  const older = useOlder<EventRow>(key, found.data?.before, async (before) => {
    const page = await get("/api/v1/events", { query: { ...asked, before } });
    return { rows: page.events, before: page.before };
  });
  const rows = [...(found.data?.events ?? []), ...older.rows];
  return (
    <>
      <Failure text={found.error} />
      <Missing nodes={found.data?.missing} />
      {found.data && rows.length === 0 && <Empty>{words.eventsNone}</Empty>}
      {rows.length > 0 && (
        <section class="panel">
          <Table
            label={words.eventsTab} rows={rows} rowKey={(row) => `${row.node} ${row.seq}`}
            columns={[
              { head: words.when, cell: (row) => <Moment at={row.at} /> },
              { head: words.node, cell: (row) => <NodeLink name={row.node} /> },
              { head: words.event, cell: (row) => <Chip state={row.kind} /> },
              { head: words.text, kind: "words", cell: (row) => <Text of={row.text} /> },
            ]}
          />
        </section>
      )}
      {older.next && <p><Act label={words.more} act={older.more} /></p>}
    </>
  );
};

const whoOf = (row: AuditRow): string =>
  [row.who, row.from === "" ? "" : `${t.value.from} ${row.from}`, row.claims === "" ? "" : `(${row.claims})`].filter(Boolean).join(" ");

const whatOf = (row: AuditRow): string => {
  const versions = row.before === null && row.after === null ? "" : `${row.before ?? "–"} → ${row.after ?? "–"}`;
  return [versions, row.what].filter(Boolean).join(": ");
};

const Audit = () => {
  const words = t.value;
  const asked = { namespace: namespace.value, limit: PAGE };
  const key = `audit ${namespace.value}`;
  const found = useFetched(key, (signal) => get("/api/v1/audit", { query: asked, signal }), { live: true });
  const older = useOlder<AuditRow>(key, found.data?.before, async (before) => {
    const page = await get("/api/v1/audit", { query: { ...asked, before } });
    return { rows: page.audit, before: page.before };
  });
  const rows = [...(found.data?.audit ?? []), ...older.rows];
  return (
    <>
      <Failure text={found.error} />
      <Missing nodes={found.data?.missing} />
      {found.data && rows.length === 0 && <Empty>{words.auditNone}</Empty>}
      {rows.length > 0 && (
        <section class="panel">
          <Table
            label={words.auditTab} rows={rows} rowKey={(row) => row.id}
            columns={[
              { head: words.when, cell: (row) => <Moment at={row.at} /> },
              { head: words.who, cell: (row) => <Text of={whoOf(row)} /> },
              { head: words.what, kind: "name", cell: (row) => <Text of={`${row.verb} ${row.object}`} /> },
              { head: words.outcome, cell: (row) => <Chip state={row.outcome} /> },
              { head: words.text, kind: "words", cell: (row) => <Text of={whatOf(row)} /> },
              { head: words.node, cell: (row) => <NodeLink name={row.node} /> },
            ]}
          />
        </section>
      )}
      {older.next && <p><Act label={words.more} act={older.more} /></p>}
    </>
  );
};

export const Activity = () => {
  const words = t.value;
  const tab = query.value["tab"] === "audit" ? "audit" : "events";
  return (
    <>
      <h1>{words.activity}</h1>
      <nav class="tabs" aria-label={words.activity}>
        <a href={href(["activity"])} aria-current={tab === "events" ? "page" : undefined}>{words.eventsTab}</a>
        <a href={href(["activity"], { tab: "audit" })} aria-current={tab === "audit" ? "page" : undefined}>{words.auditTab}</a>
      </nav>
      {tab === "audit" ? <Audit /> : <Events />}
    </>
  );
};
