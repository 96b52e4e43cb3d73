// The list of jobs: any number of them, found by name and label, with actions on many.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { post } from "../api/client";
import { t } from "../i18n";
import { runNow, switchJob, toggleOf, type SwitchVerb } from "../jobs";
import { namespace, revision } from "../live/document";
import { href, query, setQuery } from "../router";
import { confirmed } from "../ui/dialogs";
import { failureText, notify } from "../ui/notices";
import { Act, Chip, Empty, Failure, JobLink, Moment, NodeLink, RunLink, Text } from "../ui/parts";
import { JobPages, type JobRow } from "./job_pages";

/** The height of a row, in pixels: the list counts with it. */
const ROW = 48;
/** So many rows are drawn above and below those in sight. */
const BEYOND = 8;
const TYPING_MS = 120;
/** Rows in sight are fetched anew at most so often. */
const FRESH_MS = 2_500;

/** When a job is due next, or why it never is. */
export const Due = ({ job }: { job: Pick<JobRow, "next" | "paused" | "disabled" | "missing" | "unschedulable"> }) => {
  const words = t.value;
  if (job.disabled) return <Chip state="disabled" />;
  if (job.missing?.[0] !== undefined) return <Chip state="waiting" word={words.noCalendar(job.missing[0])} />;
  if (job.unschedulable) return <Chip state="waiting" word={words.noNode} />;
  return job.paused ? <Chip state="paused" /> : <Moment at={job.next} />;
};

/** Its rules, each whole, and its zone. */
export const Rules = ({ job }: { job: Pick<JobRow, "schedule" | "timezone"> }) => (
  <>
    {(job.schedule || t.value.manualOnly).split("; ").map((rule) => <code key={rule}><Text of={rule} /></code>)}{" "}
    {job.schedule && <small>{job.timezone}</small>}
  </>
);

const Duty = ({ job }: { job: JobRow }) => (
  <>
    <NodeLink name={job.owner} />{" "}
    <small>{job.placement === "sharded" ? t.value.leads(job.nodes) : job.placement === "dispatched" && job.owner ? t.value.plans : ""}</small>
  </>
);

const Row = ({ job, pages, top, chosen, choose }: {
  job: JobRow;
  pages: JobPages;
  top: number;
  chosen: boolean;
  choose: (on: boolean) => void;
}) => {
  const words = t.value;
  const ran = pages.runs.value.get(job.name);
  const verb = toggleOf(job);
  return (
    <div class="list-row" role="row" style={{ transform: `translateY(${top}px)` }}>
      <span role="cell" class="tick">
        <input type="checkbox" checked={chosen} aria-label={words.select(job.name)} onChange={(event) => choose(event.currentTarget.checked)} />
      </span>
      <span role="cell" class="name"><JobLink name={job.name} /> {job.shadow && <Chip state="shadow" />}</span>
      <span role="cell" class="rules"><Rules job={job} /></span>
      <span role="cell">
        {ran?.last ? <RunLink run={ran.last.run}><Chip state={ran.last.state} /></RunLink> : ran ? "–" : ""}
        {ran && ran.running > 0 && <> <Chip state="running" word={`${ran.running} ${words.states["running"]}`} /></>}
        {ran && ran.waiting > 0 && <> <Chip state="waiting" word={`${ran.waiting} ${words.states["waiting"]}`} /></>}
      </span>
      <span role="cell"><Due job={job} /></span>
      <span role="cell"><Duty job={job} /></span>
      <span role="cell" class="actions">
        <Act label={words.run} about={job.name} act={() => runNow(job.name)} />
        <Act label={words[verb]} about={job.name} act={() => switchJob(job.name, verb)} />
      </span>
    </div>
  );
};

const bulk = async (verb: SwitchVerb | "run", jobs: string[]): Promise<boolean> => {
  const words = t.value;
  const risky = verb === "disable" || verb === "run";
  if (risky && !(await confirmed(words.bulkAsk(words[verb], jobs.length), verb === "run" ? words.runAskText : words.disableText, words[verb]))) {
    return false;
  }
  const undo: Partial<Record<string, SwitchVerb>> = { pause: "resume", resume: "pause", enable: "disable", disable: "enable" };
  const act = (which: SwitchVerb | "run") => post("/api/v1/bulk/jobs/{verb}", { keys: { verb: which }, body: { jobs } });
  try {
    const answer = await act(verb);
    const back = undo[verb];
    const refused = answer.items.filter((item) => !item.done).map((item) => `${item.job}: ${item.detail ?? item.code ?? ""}`);
    notify(
      answer.failed === 0 ? "good" : "bad",
      [words.bulkDone(answer.done, answer.failed), ...refused.slice(0, 3)].join(" "),
      back && (() => void act(back).then(() => notify("good", words.done(words[back], words.jobsCount(jobs.length))), (error) => notify("bad", failureText(error)))),
    );
    return true;
  } catch (error) {
    notify("bad", failureText(error));
    return false;
  }
};

const BulkBar = ({ chosen, clear }: { chosen: Set<string>; clear: () => void }) => {
  const words = t.value;
  if (chosen.size === 0) return null;
  const act = async (verb: SwitchVerb | "run") => {
    if (await bulk(verb, [...chosen])) clear();
  };
  return (
    <div class="bulk" role="region" aria-label={words.actions}>
      <strong>{words.selected(chosen.size)}</strong>
      {(["run", "pause", "resume", "enable", "disable"] as const).map((verb) => <Act label={words[verb]} act={() => act(verb)} key={verb} />)}
      <button type="button" class="quiet" onClick={clear}>{words.cancel}</button>
    </div>
  );
};

/** Where the list is scrolled to within the page. */
const useScroll = (list: { current: HTMLDivElement | null }) => {
  const [top, setTop] = useState(0);
  useEffect(() => {
    let frame = 0;
    const read = () => {
      frame = 0;
      const box = list.current?.getBoundingClientRect();
      if (box) setTop(Math.max(0, -box.top));
    };
    const moved = () => {
      frame ||= requestAnimationFrame(read);
    };
    addEventListener("scroll", moved, { passive: true });
    addEventListener("resize", moved);
    read();
    return () => {
      removeEventListener("scroll", moved);
      removeEventListener("resize", moved);
      cancelAnimationFrame(frame);
    };
  }, []);
  return top;
};

const List = ({ pages, chosen, choose }: { pages: JobPages; chosen: Set<string>; choose: (name: string, on: boolean) => void }) => {
  const words = t.value;
  const body = useRef<HTMLDivElement>(null);
  const top = useScroll(body);
  const rows = pages.rows.value;
  const total = pages.total.value ?? rows.length;
  const from = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const to = Math.min(total, Math.ceil((top + innerHeight) / ROW) + BEYOND);
  useEffect(() => void pages.reach(to), [pages, to]);
  useEffect(() => {
    const timer = setTimeout(() => void pages.refresh(from, to), 80);
    return () => clearTimeout(timer);
  }, [pages, from, to, rows.length === 0]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = revision.subscribe(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        if (!document.hidden) void pages.refresh(from, to);
      }, FRESH_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [pages, from, to]);
  return (
    <div class="list" role="table" aria-label={words.jobs} aria-rowcount={total}>
      <div class="list-head" role="row">
        <span role="columnheader" class="tick" />
        {[words.job, words.schedule, words.lastOutcome, words.next, words.owner].map((head) => <span role="columnheader" key={head}>{head}</span>)}
        <span role="columnheader"><span class="unseen">{words.actions}</span></span>
      </div>
      <div ref={body} class="list-body" role="rowgroup" style={{ height: `${total * ROW}px` }}>
        {rows.slice(from, to).map((job, n) => (
          <Row
            key={job.name} job={job} pages={pages} top={(from + n) * ROW} chosen={chosen.has(job.name)}
            choose={(on) => choose(job.name, on)}
          />
        ))}
      </div>
    </div>
  );
};

export const Jobs = () => {
  const words = t.value;
  const { find = "", label = "" } = query.value;
  const pages = useMemo(() => new JobPages({ find, label, namespace: namespace.value }), [find, label, namespace.value]);
  useEffect(() => () => pages.stop(), [pages]);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const later = (values: Record<string, string>) => {
    clearTimeout(typing.current);
    typing.current = setTimeout(() => setQuery(values), TYPING_MS);
  };
  const choose = (name: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(name);
    else next.delete(name);
    setChosen(next);
  };
  const total = pages.total.value;
  const empty = pages.loaded.value && pages.rows.value.length === 0;
  return (
    <>
      <h1>{words.jobs} {total !== undefined && <small>{words.jobsCount(total)}</small>}</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input
          type="search" defaultValue={find} placeholder={words.findJobs} aria-label={words.findJobs} autocomplete="off" spellcheck={false}
          onInput={(event) => later({ find: event.currentTarget.value.trim() })}
        />
        <input
          type="search" defaultValue={label} placeholder={words.labelFilter} aria-label={words.labelFilter} autocomplete="off" spellcheck={false}
          onInput={(event) => later({ label: event.currentTarget.value.trim() })}
        />
        <a class="button right" href={href(["new-job"])}>{words.newJob}</a>
      </form>
      <Failure text={pages.error.value} />
      <BulkBar chosen={chosen} clear={() => setChosen(new Set())} />
      {empty ? <Empty>{find || label ? words.jobsNoneFound : words.jobsNone}</Empty> : (
        <section class="panel"><List pages={pages} chosen={chosen} choose={choose} /></section>
      )}
    </>
  );
};
