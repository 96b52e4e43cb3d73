// The small parts that all screens are made of.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { clock, relative } from "../format";
import { t } from "../i18n";
import { href } from "../router";
import { harmless } from "../text";

/** Text that others wrote. */
export const Text = ({ of }: { of: string | null | undefined }) => (of ? <bdi>{harmless(of)}</bdi> : null);

/** A state, in its colour and with its word. */
export const Chip = ({ state, word }: { state: string; word?: string }) => (
  <span class="chip" data-state={state}>{word ?? t.value.states[state] ?? harmless(state.replaceAll("_", " "))}</span>
);

/** A moment, and how far it is from now. */
export const Moment = ({ at }: { at: string | null | undefined }) => {
  if (!at) return <>–</>;
  const moment = Date.parse(at);
  if (Number.isNaN(moment)) return <Text of={at} />;
  return (
    <time dateTime={at} title={at}>
      {clock(moment)} <small>{relative(moment)}</small>
    </time>
  );
};

export const JobLink = ({ name }: { name: string }) => <a href={href(["jobs", name])}><Text of={name} /></a>;
export const RunLink = ({ run, children }: { run: string; children?: ComponentChildren }) => (
  <a href={href(["runs", run])}>{children ?? <Text of={run} />}</a>
);
export const NodeLink = ({ name }: { name: string | null | undefined }) =>
  name ? <a href={href(["nodes", name.split("@")[0] ?? name])}><Text of={name} /></a> : <>–</>;

/** A button that cannot be pressed again while it acts. Its label says what it is about to those who hear the page. */
export const Act = ({ label, about, danger, main, act }: {
  label: string;
  about?: string;
  danger?: boolean;
  main?: boolean;
  act: () => Promise<unknown> | void;
}) => {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (busy) return;
    setBusy(true);
    try {
      await act();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={danger ? "danger" : main ? "main" : undefined}
      aria-disabled={busy}
      aria-label={about ? `${label}: ${harmless(about)}` : undefined}
      onClick={() => void press()}
    >
      {label}
    </button>
  );
};

/** A part of a screen with a heading. */
export const Panel = ({ title, aside, children }: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) => (
  <section class="panel">
    <header class="panel-head">
      <h2>{title}</h2>
      {aside && <div class="panel-aside">{aside}</div>}
    </header>
    {children}
  </section>
);

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;
export const Failure = ({ text }: { text: string | undefined }) => (text ? <p class="failure" role="alert">{harmless(text)}</p> : null);

/** Says which nodes' histories could not be read. */
export const Missing = ({ nodes }: { nodes: string[] | null | undefined }) =>
  nodes && nodes.length > 0 ? <p class="empty" role="status">{t.value.missing(nodes.map(harmless).join(", "), nodes.length)}</p> : null;

/** A column of a table. */
export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  /** `number` is set right; `actions` stays in sight when the table is wider than the page. */
  kind?: "number" | "name" | "words" | "actions";
}

/** A table; on a narrow page each row is a card. */
export const Table = <T,>({ label, columns, rows, rowKey }: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
}) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    <table>
      <thead>
        <tr>
          {columns.map(({ head, kind }) => (
            <th scope="col" class={kind} key={head}>{kind === "actions" ? <span class="unseen">{head}</span> : head}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)}>
            {columns.map(({ head, kind, cell }) => <td class={kind} data-head={head} key={head}>{cell(row)}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

/** Names beside their values. */
export const Facts = ({ of }: { of: [string, ComponentChildren][] }) => (
  <dl class="facts">
    {of.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/** Copies a text. */
export const Copy = ({ label, text }: { label: string; text: string }) => {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <button type="button" onClick={() => void copy()}>{done ? t.value.copied : label}</button>;
};
