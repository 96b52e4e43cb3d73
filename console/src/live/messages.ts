// What a page and the worker that reads the live stream send each other.

import type { Json } from "./patch";

/** From a page. */
export type ToWorker =
  /** The page is seen, or hidden: a stream that no page looks at is closed. */
  | { kind: "look"; visible: boolean; namespace: string; base: string }
  /** The page is gone. */
  | { kind: "leave" };

/** To a page. */
export type ToPage =
  | { kind: "document"; document: Json; namespace: string }
  | { kind: "patch"; patch: Json; namespace: string }
  | { kind: "state"; state: "live" | "lost"; since: number }
  /** The session is over. */
  | { kind: "logged-out" };
