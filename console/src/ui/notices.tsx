// Short notices of what was done, and of what was refused.

import { signal } from "@preact/signals";

import { CallError } from "../api/client";
import { t } from "../i18n";
import { harmless } from "../text";

/** A notice. */
interface Notice {
  id: number;
  kind: "good" | "bad";
  text: string;
  undo: (() => void) | undefined;
}

const GOOD_MS = 8_000;
const notices = signal<Notice[]>([]);
let last = 0;

const close = (id: number) => {
  notices.value = notices.value.filter((notice) => notice.id !== id);
};

/** Shows a notice: a good one for some seconds, a bad one until it is closed. */
export const notify = (kind: "good" | "bad", text: string, undo?: () => void): void => {
  const id = ++last;
  notices.value = [...notices.value.slice(-4), { id, kind, text, undo }];
  if (kind === "good") setTimeout(() => close(id), undo ? GOOD_MS * 2 : GOOD_MS);
};

/** What a failed call says. */
export const failureText = (error: unknown): string => {
  if (!(error instanceof CallError)) return String(error);
  if (error.status === 0) return t.value.noAnswer;
  return error.version === undefined ? error.message : `${error.message} (${t.value.presentVersion(error.version)})`;
};

/** Does something; says that it is done, or why not. Returns whether it was done. */
export const attempt = async (done: string, act: () => Promise<unknown>, undo?: () => void): Promise<boolean> => {
  try {
    const answer = (await act()) as { warnings?: string[] | null } | undefined;
    const warnings = answer?.warnings ?? [];
    if (warnings.length > 0) notify("bad", `${done} ${warnings.join("; ")}`, undo);
    else notify("good", done, undo);
    return true;
  } catch (error) {
    notify("bad", failureText(error));
    return false;
  }
};

export const Notices = () => (
  <div class="notices" role="status" aria-live="polite">
    {notices.value.map(({ id, kind, text, undo }) => (
      <div class="notice" data-kind={kind} key={id}>
        <span>{harmless(text)}</span>
        {undo && (
          <button type="button" onClick={() => { close(id); undo(); }}>{t.value.undo}</button>
        )}
        <button type="button" class="quiet" aria-label={t.value.close} onClick={() => close(id)}>×</button>
      </div>
    ))}
  </div>
);
