// Data that is fetched besides the live document.

import { useEffect, useRef, useState } from "preact/hooks";

import { CallError } from "../api/client";
import { revision } from "../live/document";

/** What was fetched so far. */
export interface Fetched<T> {
  data: T | undefined;
  error: string | undefined;
  /** Fetches anew. */
  again: () => void;
}

/** When it is fetched again. */
export interface Freshness {
  /** Whenever the live document changes, at most every two seconds. */
  live?: boolean;
  /** After this many milliseconds. */
  every?: number;
}

const LIVE_MS = 2_000;

/** Fetches when `key` changes, and again as `fresh` says while the page is seen. What was fetched stays meanwhile. */
export const useFetched = <T,>(
  key: string | undefined,
  fetcher: (signal: AbortSignal) => Promise<T>,
  fresh: Freshness = {},
): Fetched<T> => {
  const [state, setState] = useState<{ key: string | undefined; data: T | undefined; error: string | undefined }>({
    key, data: undefined, error: undefined,
  });
  const [turn, setTurn] = useState(0);
  const busy = useRef(false);
  const late = useRef(false);
  useEffect(() => {
    if (key === undefined) return;
    const abort = new AbortController();
    busy.current = true;
    fetcher(abort.signal)
      .then((data) => setState({ key, data, error: undefined }))
      .catch((error: unknown) => {
        if (abort.signal.aborted) return;
        const text = error instanceof CallError ? error.message : String(error);
        setState((old) => ({ key, data: old.key === key ? old.data : undefined, error: text }));
      })
      .finally(() => {
        if (!abort.signal.aborted) busy.current = false;
      });
    return () => {
      abort.abort();
      busy.current = false;
    };
  }, [key, turn]);
  useEffect(() => {
    if (key === undefined) return;
    const again = () => {
      if (!busy.current && !document.hidden) setTurn((n) => n + 1);
    };
    const stops: (() => void)[] = [];
    if (fresh.every) {
      const timer = setInterval(again, fresh.every);
      stops.push(() => clearInterval(timer));
    }
    if (fresh.live) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      let first = true;
      const unsubscribe = revision.subscribe(() => {
        if (first) return void (first = false);
        timer ??= setTimeout(() => {
          timer = undefined;
          again();
        }, LIVE_MS);
      });
      stops.push(unsubscribe, () => clearTimeout(timer));
    }
    const seen = () => {
      if (document.hidden) late.current = true;
      else if (late.current) {
        late.current = false;
        again();
      }
    };
    document.addEventListener("visibilitychange", seen);
    stops.push(() => document.removeEventListener("visibilitychange", seen));
    return () => stops.forEach((stop) => stop());
  }, [key, fresh.every, fresh.live]);
  const isOf = state.key === key;
  return { data: isOf ? state.data : undefined, error: isOf ? state.error : undefined, again: () => setTurn((n) => n + 1) };
};
