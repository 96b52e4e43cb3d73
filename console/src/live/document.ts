// The live document as signals: what the cluster is like now.

import { computed, signal } from "@preact/signals";

import type { Schemas } from "../api/client";
import type { ToPage, ToWorker } from "./messages";
import { patched, type Json } from "./patch";
import { LiveStream } from "./stream";

declare const LIVE_WORKER: string;

type Rows<T> = { [key: string]: T };

/** The document of the stream, in which what would be null is left out: docs/concepts/live.md. */
export interface LiveDocument {
  node: string;
  closed: boolean;
  jobs: Rows<Schemas["JobRow"]>;
  more: boolean;
  enabled: number;
  calendars: Rows<Schemas["CalendarRow"]>;
  nodes: Rows<Schemas["NodeRow"]>;
  running: number;
  runs: Rows<Schemas["RunRow"]>;
  sharded: Rows<true>;
  events: Rows<Schemas["EventRow"]>;
  audit: Rows<Schemas["AuditRow"]>;
  missing: Rows<true>;
}

/** The latest document; `undefined` before the first. */
export const live = signal<LiveDocument | undefined>(undefined);
/** Whether the stream is read now, and since when. */
export const connection = signal<{ state: "live" | "lost" | "starting"; since: number }>({ state: "starting", since: Date.now() });
/** The namespace that the console shows; empty for all that the caller sees. */
export const namespace = signal("");
/** Rises with each change of the document: what was fetched besides may be old. */
export const revision = signal(0);

/** Rows in the order of a moment, the latest first. */
const latestFirst = <T,>(rows: Rows<T> | undefined, moment: (row: T) => string | null | undefined): T[] =>
  Object.values(rows ?? {}).sort((a, b) => Date.parse(moment(b) ?? "") - Date.parse(moment(a) ?? ""));

export const nodes = computed(() => Object.values(live.value?.nodes ?? {}).sort((a, b) => a.name.localeCompare(b.name)));
export const runs = computed(() => latestFirst(live.value?.runs, (run) => run.started ?? run.ended ?? run.due));
export const events = computed(() => latestFirst(live.value?.events, (event) => event.at));
export const missing = computed(() => Object.keys(live.value?.missing ?? {}).sort());

const take = (message: ToPage): void => {
  switch (message.kind) {
    case "document":
    case "patch": {
      if (message.namespace !== namespace.value) return;
      const next = message.kind === "patch" ? patched(live.value as unknown as Json, message.patch) : message.document;
      live.value = next as unknown as LiveDocument;
      revision.value += 1;
      return;
    }
    case "state":
      connection.value = { state: message.state, since: message.since };
      return;
    case "logged-out":
      location.reload();
  }
};

/** The folder of the page, with which addresses begin. */
const base = (): string => new URL(".", location.href.split("#")[0]).href;

/** Where browsers have no shared workers, each page reads a stream of its own while it is seen. */
const ownStream = (): ((message: ToWorker) => void) => {
  let stream: { of: string; it: LiveStream } | undefined;
  return (message) => {
    if (message.kind === "leave") return stream?.it.stop();
    if (stream?.of !== message.namespace) {
      stream?.it.stop();
      const of = message.namespace;
      const query = of === "" ? "" : `?namespace=${encodeURIComponent(of)}`;
      const it = new LiveStream(`${message.base}api/v1/live${query}`, {
        event: (kind, data) =>
          take(kind === "patch" ? { kind, patch: data, namespace: of } : { kind: "document", document: data, namespace: of }),
        state: (state) => take({ kind: "state", state, since: Date.now() }),
        loggedOut: () => take({ kind: "logged-out" }),
      });
      stream = { of, it };
    }
    if (message.visible) stream.it.start();
    else stream.it.stop();
  };
};

const sharedStream = (): ((message: ToWorker) => void) => {
  const { port } = new SharedWorker(new URL(`assets/${LIVE_WORKER}`, base()), { name: "evenkeel-live" });
  port.onmessage = ({ data }: MessageEvent<ToPage>) => take(data);
  port.start();
  return (message) => port.postMessage(message);
};

/** Follows the cluster from now on. */
export const follow = (): void => {
  const tell = "SharedWorker" in self ? sharedStream() : ownStream();
  const look = () => tell({ kind: "look", visible: !document.hidden, namespace: namespace.value, base: base() });
  namespace.subscribe(() => {
    live.value = undefined;
    look();
  });
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => tell({ kind: "leave" }));
  addEventListener("pageshow", (event) => event.persisted && look());
};
