// Questions before something that cannot be taken back, and small forms.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { t } from "../i18n";

/** A question. */
interface Question {
  title: string;
  body: ComponentChildren;
  verb: string;
  danger: boolean;
  answer: (form: FormData | undefined) => void;
}

const question = signal<Question | undefined>(undefined);

/** Asks with a form; `undefined` if it is dismissed. */
export const ask = (title: string, body: ComponentChildren, verb: string, danger = false): Promise<FormData | undefined> =>
  new Promise((answer) => {
    question.value?.answer(undefined);
    question.value = { title, body, verb, danger, answer };
  });

/** Asks whether to go on. */
export const confirmed = async (title: string, text: string, verb: string): Promise<boolean> =>
  (await ask(title, <p>{text}</p>, verb, true)) !== undefined;

export const Dialogs = () => {
  const shown = useRef<HTMLDialogElement>(null);
  const present = question.value;
  useEffect(() => {
    const dialog = shown.current;
    if (present && dialog && !dialog.open) dialog.showModal();
  }, [present]);
  if (!present) return null;
  const end = (form: FormData | undefined) => {
    question.value = undefined;
    present.answer(form);
  };
  return (
    <dialog ref={shown} onCancel={(event) => { event.preventDefault(); end(undefined); }} aria-labelledby="dialog-title">
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          end(new FormData(event.currentTarget));
        }}
      >
        <h2 id="dialog-title">{present.title}</h2>
        <div class="dialog-body">{present.body}</div>
        <div class="dialog-verbs">
          <button type="button" onClick={() => end(undefined)} autofocus={present.danger}>{t.value.cancel}</button>
          <button type="submit" class={present.danger ? "danger" : "main"}>{present.verb}</button>
        </div>
      </form>
    </dialog>
  );
};
