// Calendars, and the year of one at a glance.

import { get, type Schemas } from "../api/client";
import { language, t } from "../i18n";
import { namespace } from "../live/document";
import { href } from "../router";
import { useFetched } from "../ui/fetching";
import { Empty, Facts, Failure, JobLink, Moment, Panel, Table, Text } from "../ui/parts";

const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const pad = (n: number) => String(n).padStart(2, "0");

/** Which days of a year a calendar names, as far as they are written as dates, spans of dates, yearly days or weekdays. */
const namedDays = (calendar: Schemas["Calendar"], year: number): Set<string> => {
  const named = new Set<string>();
  const weekdays = new Set((calendar.weekdays ?? []).map((day) => day.slice(0, 3).toLowerCase()));
  const lines = calendar.days ?? [];
  const single = new Set(lines);
  const spans = lines.flatMap((line) => {
    const [from, to] = line.split("..");
    return from && to ? [{ from, to }] : [];
  });
  for (let day = new Date(Date.UTC(year, 0, 1)); day.getUTCFullYear() === year; day.setUTCDate(day.getUTCDate() + 1)) {
    const short = `${pad(day.getUTCMonth() + 1)}-${pad(day.getUTCDate())}`;
    const whole = `${year}-${short}`;
    const within = spans.some(({ from, to }) => (from.length === 10 ? from <= whole && whole <= to : from <= short && short <= to));
    if (single.has(whole) || single.has(short) || within || weekdays.has(DAYS[day.getUTCDay()] ?? "")) named.add(whole);
  }
  return named;
};

const Month = ({ year, month, named }: { year: number; month: number; named: Set<string> }) => {
  const first = new Date(Date.UTC(year, month, 1));
  const before = (first.getUTCDay() + 6) % 7;
  const length = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const title = new Intl.DateTimeFormat(language.value, { month: "long", timeZone: "UTC" }).format(first);
  return (
    <figure class="month">
      <figcaption>{title}</figcaption>
      <div class="days">
        {Array.from({ length: before }, (_, n) => <span key={`b${n}`} />)}
        {Array.from({ length }, (_, n) => {
          const day = `${year}-${pad(month + 1)}-${pad(n + 1)}`;
          return <span key={day} class="day" data-named={named.has(day)} title={day}>{n + 1}</span>;
        })}
      </div>
    </figure>
  );
};

export const Calendars = () => {
  const words = t.value;
  const found = useFetched(`calendars ${namespace.value}`, (signal) => get("/api/v1/calendars", { query: { namespace: namespace.value }, signal }), { live: true });
  const rows = found.data?.calendars ?? [];
  return (
    <>
      <h1>{words.calendars}</h1>
      <Failure text={found.error} />
      {found.data && rows.length === 0 && <Empty>{words.calendarsNone}</Empty>}
      {rows.length > 0 && (
        <section class="panel">
          <Table
            label={words.calendars} rows={rows} rowKey={(row) => row.name}
            columns={[
              { head: words.calendar, kind: "name", cell: (row) => <a href={href(["calendars", row.name])}><Text of={row.name} /></a> },
              { head: words.lines, kind: "number", cell: (row) => row.lines },
              { head: words.usedBy, kind: "number", cell: (row) => words.jobsCount(row.jobs) },
              { head: words.changed, cell: (row) => <><Moment at={row.since} /> <small>{words.versionOf(row.version)}</small></> },
              { head: words.description, kind: "words", cell: (row) => <Text of={row.description} /> },
            ]}
          />
        </section>
      )}
    </>
  );
};

export const Calendar = ({ name }: { name: string }) => {
  const words = t.value;
  const found = useFetched(`calendar ${name}`, (signal) => get("/api/v1/calendars/{name}", { keys: { name }, signal }), { live: true });
  const detail = found.data;
  const year = new Date().getUTCFullYear();
  const named = detail ? namedDays(detail.calendar, year) : new Set<string>();
  return (
    <>
      <h1><a href={href(["calendars"])}>{words.calendars}</a> / <Text of={name} /></h1>
      <Failure text={found.error} />
      {detail && (
        <>
          <Panel title={words.calendar}>
            <Facts
              of={[
                [words.description, <Text of={detail.calendar.description ?? "–"} />],
                [words.version, <>{detail.version} <Moment at={detail.since} /></>],
                [words.weekdays, (detail.calendar.weekdays ?? []).join(", ") || "–"],
                [words.windows, (detail.calendar.windows ?? []).join(", ") || "–"],
                [words.days, <span class="wide"><Text of={(detail.calendar.days ?? []).join(", ") || "–"} /></span>],
                [words.usedBy, <>{detail.jobs.map((job) => <span key={job}><JobLink name={job} /> </span>)}{detail.jobs.length === 0 && "–"}</>],
              ]}
            />
          </Panel>
          <Panel title={`${words.year} ${year}`}>
            <div class="year">{Array.from({ length: 12 }, (_, month) => <Month year={year} month={month} named={named} key={month} />)}</div>
          </Panel>
        </>
      )}
    </>
  );
};
