// The editor of a job: a form and the declaration as JSON side by side, the fires of its schedule, and what saving would change.

import { useMemo, useState } from "preact/hooks";

import { CallError, get, post, put, type Schemas } from "../api/client";
import { inZone } from "../format";
import { t } from "../i18n";
import { namespace } from "../live/document";
import { go, href } from "../router";
import { shellWord } from "../toml";
import { useFetched } from "../ui/fetching";
import { attempt } from "../ui/notices";
import { Act, Chip, Empty, Failure, Moment, Panel, Table, Text } from "../ui/parts";

type Job = Schemas["Job"];

const PLACEMENTS = ["claimed", "dispatched", "sharded", "broadcast"] as const;
const NEXT = 5;
const EXAMPLE: Job = { name: "", schedule: "0 3 * * *", timezone: Intl.DateTimeFormat().resolvedOptions().timeZone, command: ["/usr/bin/env", "true"] };

const pretty = (job: Job): string => JSON.stringify(job, null, 2);

/** The text as a job, or why it is none. */
const parsed = (text: string): { job: Job } | { wrong: string } => {
  try {
    const job = JSON.parse(text) as unknown;
    if (typeof job !== "object" || job === null || Array.isArray(job)) return { wrong: t.value.notAnObject };
    return { job: job as Job };
  } catch (error) {
    return { wrong: (error as Error).message };
  }
};

/** The job with one key changed; an empty value takes the key out. */
const changed = (job: Job, key: string, value: unknown): Job => {
  const next = { ...job } as Record<string, unknown>;
  if (value === "" || value === undefined) delete next[key];
  else next[key] = value;
  return next as Job;
};

/** A command line in words, as a shell would split it; quotes keep blanks. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g)].map(([word]) => word.replace(/'([^']*)'|"([^"]*)"/g, (_, one, two) => one ?? two ?? ""));

const lineOf = (command: Job["command"]): string =>
  typeof command === "string" ? command : (command ?? []).map(shellWord).join(" ");

const labelsOf = (job: Job): string => Object.entries(job.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ");
const labelsFrom = (text: string): Record<string, string> | undefined => {
  const pairs = text.split(",").map((part) => part.trim().split("=")).filter(([key]) => key);
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs.map(([key, value = ""]) => [key, value]));
};

const Field = ({ label, value, change, wide, disabled }: {
  label: string;
  value: string;
  change: (text: string) => void;
  wide?: boolean;
  disabled?: boolean;
}) => (
  <label class={wide ? "field wide-field" : "field"}>
    {label}
    <input type="text" value={value} disabled={disabled} spellcheck={false} autocomplete="off" onInput={(event) => change(event.currentTarget.value)} />
  </label>
);

const Form = ({ job, change, isNew }: { job: Job; change: (job: Job) => void; isNew: boolean }) => {
  const words = t.value;
  const set = (key: string) => (value: unknown) => change(changed(job, key, value));
  const schedule = Array.isArray(job.schedule) ? job.schedule.join("; ") : (job.schedule ?? "");
  return (
    <div class="form">
      <Field label={words.name} value={job.name ?? ""} change={set("name")} disabled={!isNew} />
      <Field label={words.timezone} value={job.timezone ?? ""} change={set("timezone")} />
      <Field
        label={words.scheduleField} value={schedule} wide
        change={(text) => set("schedule")(text.includes(";") ? text.split(";").map((rule) => rule.trim()).filter(Boolean) : text)}
      />
      {job.http || job.function ? null : (
        <Field label={words.command} value={lineOf(job.command)} wide change={(text) => set("command")(job.shell ? text : wordsOf(text))} />
      )}
      <Field label={words.description} value={job.description ?? ""} wide change={set("description")} />
      <Field label={words.labels} value={labelsOf(job)} change={(text) => set("labels")(labelsFrom(text))} />
      <label class="field">
        {words.placement}
        <select value={job.placement ?? "claimed"} onChange={(event) => set("placement")(event.currentTarget.value === "claimed" ? undefined : event.currentTarget.value)}>
          {PLACEMENTS.map((one) => <option value={one} key={one}>{one}</option>)}
        </select>
      </label>
    </div>
  );
};

const Preview = ({ job }: { job: Job }) => {
  const words = t.value;
  const rules = Array.isArray(job.schedule) ? job.schedule.join("; ") : (job.schedule ?? "");
  const timezone = job.timezone || "UTC";
  const list = (names: string[] | undefined) => names?.join(",");
  const query = {
    schedule: rules, timezone, n: NEXT, name: job.name || undefined, jitter: job.jitter, dst: job.dst, start_at: job.start_at, end_at: job.end_at,
    exclude_calendars: list(job.exclude_calendars), require_calendars: list(job.require_calendars), namespace: namespace.value,
  };
  const found = useFetched(rules === "" ? undefined : `preview ${JSON.stringify(query)}`, (signal) => get("/api/v1/preview", { query, signal }));
  return (
    <Panel title={words.nextFires}>
      {rules === "" && <Empty>{words.manualOnly}</Empty>}
      <Failure text={found.error} />
      {found.data && (
        <Table
          label={words.nextFires} rows={found.data.next.map((at, n) => ({ at, notes: found.data?.notes[n] ?? [] }))} rowKey={(row) => row.at}
          columns={[
            { head: words.when, cell: ({ at }) => <Moment at={at} /> },
            { head: `${words.inJobZone} (${timezone})`, cell: ({ at }) => inZone(Date.parse(at), timezone) },
            { head: words.notes, kind: "words", cell: ({ notes }) => <Text of={notes.join("; ")} /> },
          ]}
        />
      )}
    </Panel>
  );
};

const written = (value: unknown): string => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

const Plan = ({ job }: { job: Job }) => {
  const words = t.value;
  const found = useFetched(job.name ? `plan ${JSON.stringify(job)}` : undefined, () => post("/api/v1/plan", { body: { jobs: [job] } }));
  const row = found.data?.jobs[0];
  const fires = (fate: string) => row?.changes.filter((fire) => fire.fate === fate).length ?? 0;
  return (
    <Panel title={words.plan} aside={row && <Chip state={row.becomes} word={words.effects[row.becomes] ?? row.becomes} />}>
      <Failure text={found.error} />
      {found.data?.refused.map((refusal) => <Failure text={refusal.detail} key={refusal.detail} />)}
      {row && (
        <>
          <p class="padded">
            {words.planFires(fires("added"), fires("dropped"))} {row.next && <>{words.next}: <Moment at={row.next} /></>}
          </p>
          {[...(row.warnings ?? []), ...row.notes].map((text) => <Empty key={text}><Text of={text} /></Empty>)}
          {row.fields.length > 0 && row.becomes !== "created" && (
            <Table
              label={words.fields} rows={row.fields.map((field) => ({ field, ...row.values[field] }))} rowKey={({ field }) => field}
              columns={[
                { head: words.fields, kind: "name", cell: ({ field }) => <code>{field}</code> },
                { head: words.was, kind: "words", cell: ({ old }) => <del><Text of={written(old)} /></del> },
                { head: words.becomes, kind: "words", cell: ({ new: fresh }) => <ins><Text of={written(fresh)} /></ins> },
              ]}
            />
          )}
        </>
      )}
    </Panel>
  );
};

const Editing = ({ first, version }: { first: Job; version: number | undefined }) => {
  const words = t.value;
  const [text, setText] = useState(pretty(first));
  const [stale, setStale] = useState(false);
  const found = useMemo(() => parsed(text), [text]);
  const job = "job" in found ? found.job : undefined;
  const isNew = version === undefined;
  const save = async () => {
    if (!job) return;
    const name = job.name;
    const done = await attempt(words.done(words.save, name), async () => {
      try {
        return await put("/api/v1/jobs/{name}", { keys: { name }, body: job, ...(isNew ? { absent: true } : { version }) });
      } catch (error) {
        if (error instanceof CallError && error.version !== undefined) setStale(true);
        throw error;
      }
    });
    if (done) go(["jobs", name]);
  };
  return (
    <>
      {stale && <p class="failure" role="alert">{words.stale}</p>}
      <div class="verbs">
        <Act label={words.save} about={job?.name ?? ""} main act={save} />
        <a class="button" href={isNew ? href(["jobs"]) : href(["jobs", first.name])}>{words.cancel}</a>
      </div>
      <div class="side-by-side">
        <Panel title={words.form}>
          {job ? <Form job={job} isNew={isNew} change={(next) => setText(pretty(next))} /> : <Empty>{words.mendText}</Empty>}
        </Panel>
        <Panel title={words.declaration}>
          <Failure text={"wrong" in found ? found.wrong : undefined} />
          <textarea class="source" aria-label={words.declaration} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} />
        </Panel>
      </div>
      {job && <Preview job={job} />}
      {job && <Plan job={job} />}
    </>
  );
};

/** Declares a new job. */
export const NewJob = () => (
  <>
    <h1><a href={href(["jobs"])}>{t.value.jobs}</a> / {t.value.newJob}</h1>
    <Editing first={EXAMPLE} version={undefined} />
  </>
);

/** Edits a job as it is declared now. */
export const EditJob = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched(`edited ${name}`, (signal) => get("/api/v1/jobs/{name}", { keys: { name }, signal }));
  return (
    <>
      <h1><a href={href(["jobs"])}>{words.jobs}</a> / <a href={href(["jobs", name])}><Text of={name} /></a> / {words.edit}</h1>
      <Failure text={found.error} />
      {found.data && <Editing key={found.data.version} first={found.data.job} version={found.data.version} />}
    </>
  );
};
