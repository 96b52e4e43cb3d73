// The output of a run: read from its end, followed while it runs, with the colours of a terminal.

import { useEffect, useRef, useState } from "preact/hooks";

import { address, send, type Schemas } from "../api/client";
import { piecesOf, plain, type Piece } from "../ansi";
import { t } from "../i18n";
import { harmless } from "../text";
import { failureText } from "../ui/notices";
import { Empty, Failure, Panel } from "../ui/parts";
import { isOpen } from "./runs";

/** So many lines are kept; the first go when more come. */
const LINES_MAX = 5_000;
/** A line that is longer is cut. */
const LINE_MAX = 4_000;
const FRAME_MS = 100;
/** What an error looks like in the output of most programs. */
const ERROR = /\b(error|fatal|panic|panicked|exception|traceback|failed)\b/i;

interface Output {
  lines: Piece[][];
  /** Whether earlier lines are left out. */
  cut: boolean;
  error: string | undefined;
  ended: boolean;
}

const nothing: Output = { lines: [], cut: false, error: undefined, ended: false };

/** Reads the output of an attempt to its end. */
const useOutput = (run: string, attempt: number, open: boolean): Output => {
  const [output, setOutput] = useState<Output>(nothing);
  useEffect(() => {
    const abort = new AbortController();
    let lines: Piece[][] = [];
    let rest = "";
    let style = plain;
    let cut = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (ended: boolean, error?: string) => {
      clearTimeout(timer);
      timer = undefined;
      const last = rest === "" ? [] : [piecesOf(rest.slice(0, LINE_MAX), style).pieces];
      setOutput({ lines: [...lines, ...last], cut, error, ended });
    };
    const take = (text: string) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        // What was written over in one line is not seen on a terminal.
        const seen = part.replace(/\r$/, "").split("\r").at(-1) ?? "";
        const found = piecesOf(seen.slice(0, LINE_MAX), style);
        style = found.style;
        lines.push(found.pieces);
      }
      if (lines.length > LINES_MAX) {
        lines = lines.slice(-LINES_MAX);
        cut = true;
      }
      timer ??= setTimeout(() => show(false), FRAME_MS);
    };
    const read = async () => {
      const target = address("/api/v1/runs/{run}/logs", { run }, { attempt, follow: open, tail: LINES_MAX });
      const answer = await send(target, { signal: abort.signal });
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const piece = await reader?.read();
        if (!piece || piece.done) return show(true);
        take(piece.value);
      }
    };
    setOutput(nothing);
    read().catch((error: unknown) => {
      if (!abort.signal.aborted) show(true, failureText(error));
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [run, attempt]);
  return output;
};

const Line = ({ pieces, mark, n }: { pieces: Piece[]; mark: boolean; n: number }) => (
  <div class="log-line" data-mark={mark} data-line={n}>
    {pieces.map(({ text, style }, at) => (style === "" ? harmless(text) : <span class={style} key={at}>{harmless(text)}</span>))}
    {"\n"}
  </div>
);

const textOf = (pieces: Piece[]): string => pieces.map((piece) => piece.text).join("");

export const Log = ({ run, attempts }: { run: string; attempts: Schemas["RunRow"][] }) => {
  const words = t.value;
  const [chosen, setChosen] = useState<number | undefined>(undefined);
  const begun = attempts.filter((attempt) => attempt.started);
  const latest = begun.at(-1);
  const attempt = begun.find((one) => one.attempt === chosen) ?? latest;
  if (!attempt) return <Panel title={words.output}><Empty>{words.outputNeverRan}</Empty></Panel>;
  return <AttemptLog key={attempt.attempt} run={run} attempt={attempt} begun={begun} choose={setChosen} />;
};

const AttemptLog = ({ run, attempt, begun, choose }: {
  run: string;
  attempt: Schemas["RunRow"];
  begun: Schemas["RunRow"][];
  choose: (attempt: number) => void;
}) => {
  const words = t.value;
  const open = isOpen(attempt.state);
  const output = useOutput(run, attempt.attempt, open);
  const [find, setFind] = useState("");
  const [follow, setFollow] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const wanted = find.trim().toLowerCase();
  const shown = output.lines.map((pieces, n) => ({ pieces, n })).filter(({ pieces }) => wanted === "" || textOf(pieces).toLowerCase().includes(wanted));
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [output.lines.length, follow]);
  const scrolled = () => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    setFollow(scrollHeight - scrollTop - clientHeight < 8);
  };
  const errorAt = shown.findLast(({ pieces }) => ERROR.test(textOf(pieces)))?.n;
  const toError = () => {
    const line = box.current?.querySelector(`[data-line="${errorAt}"]`);
    setFollow(false);
    line?.scrollIntoView({ block: "center" });
  };
  return (
    <Panel
      title={words.output}
      aside={
        <>
          {begun.length > 1 && (
            <label>
              {words.attempt}{" "}
              <select value={attempt.attempt} onChange={(event) => choose(Number(event.currentTarget.value))}>
                {begun.map((one) => <option value={one.attempt} key={one.attempt}>{one.attempt}</option>)}
              </select>
            </label>
          )}
          <input type="search" placeholder={words.findInOutput} aria-label={words.findInOutput} onInput={(event) => setFind(event.currentTarget.value)} />
          {wanted !== "" && <small>{words.matches(shown.length)}</small>}
          {errorAt !== undefined && <button type="button" onClick={toError}>{words.jumpToError}</button>}
          {open && <label class="check"><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> {words.follow}</label>}
          <a class="button" href={address("/api/v1/runs/{run}/logs", { run }, { attempt: attempt.attempt, download: true })} download="">{words.download}</a>
        </>
      }
    >
      <Failure text={output.error} />
      {output.cut && <Empty>{words.tailOnly(LINES_MAX)}</Empty>}
      {output.lines.length === 0 && !output.error ? <Empty>{output.ended || !open ? words.outputNone : `${words.outputNone} …`}</Empty> : (
        <pre class="log" ref={box} tabIndex={0} aria-label={words.output} onScroll={scrolled}>
          {shown.map(({ pieces, n }) => <Line key={n} pieces={pieces} n={n} mark={n === errorAt} />)}
        </pre>
      )}
    </Panel>
  );
};
