// The palette: any place and any job by a few letters, and what is done most, without the mouse. The keys of the console.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { get, type Schemas } from "../api/client";
import { t } from "../i18n";
import { runNow, switchJob, toggleOf } from "../jobs";
import { namespace } from "../live/document";
import { go } from "../router";
import { Text } from "./parts";

const TYPING_MS = 100;
/** So many jobs are proposed. */
const JOBS = 8;

const shown = signal<"none" | "palette" | "keys">("none");

/** What can be chosen. */
interface Choice {
  text: string;
  note: string;
  act: () => void;
}

/** The screens with the letter that opens each after `g`. */
export const screens = (): { letter: string; path: string[]; text: string }[] => {
  const words = t.value;
  return [
    { letter: "o", path: [], text: words.overview },
    { letter: "j", path: ["jobs"], text: words.jobs },
    { letter: "r", path: ["runs"], text: words.runs },
    { letter: "n", path: ["nodes"], text: words.nodes },
    { letter: "c", path: ["calendars"], text: words.calendars },
    { letter: "h", path: ["health"], text: words.health },
    { letter: "a", path: ["activity"], text: words.activity },
  ];
};

const places = (text: string): Choice[] =>
  screens()
    .filter((screen) => screen.text.toLowerCase().includes(text))
    .map(({ letter, path, text: name }) => ({ text: name, note: `g ${letter}`, act: () => go(path) }));

const ofJob = (job: Schemas["JobRow"], first: boolean): Choice[] => {
  const words = t.value;
  const verb = toggleOf(job);
  const open: Choice = { text: job.name, note: words.job, act: () => go(["jobs", job.name]) };
  if (!first) return [open];
  return [
    open,
    { text: `${words.run}: ${job.name}`, note: "", act: () => void runNow(job.name) },
    { text: `${words[verb]}: ${job.name}`, note: "", act: () => void switchJob(job.name, verb) },
  ];
};

const Palette = () => {
  const words = t.value;
  const [text, setText] = useState("");
  const [jobs, setJobs] = useState<Schemas["JobRow"][]>([]);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const wanted = text.trim().toLowerCase();
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get("/api/v1/jobs", { query: { find: wanted, limit: JOBS, namespace: namespace.value }, signal: abort.signal })
        .then((page) => setJobs(page.jobs), () => undefined);
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted]);
  const found = [...(wanted === "" ? places("") : []), ...jobs.flatMap((job, n) => ofJob(job, n === 0 && wanted !== "")), ...(wanted === "" ? [] : places(wanted))];
  const present = Math.min(at, Math.max(0, found.length - 1));
  useEffect(() => list.current?.querySelector("[aria-selected='true']")?.scrollIntoView({ block: "nearest" }), [present]);
  const choose = (choice: Choice | undefined) => {
    if (!choice) return;
    shown.value = "none";
    choice.act();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((present + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(found[present]);
    }
  };
  return (
    <>
      <input
        class="palette-input" type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" autofocus
        aria-activedescendant={found.length > 0 ? `choice-${present}` : undefined} aria-label={words.paletteLabel} placeholder={words.paletteLabel}
        autocomplete="off" spellcheck={false} onKeyDown={pressed}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
      />
      <ul class="palette-list" id="palette-list" role="listbox" aria-label={words.paletteLabel} ref={list}>
        {found.map((choice, n) => (
          <li key={`${choice.note} ${choice.text}`} id={`choice-${n}`} role="option" aria-selected={n === present} onClick={() => choose(choice)}>
            <Text of={choice.text} /> <small>{choice.note}</small>
          </li>
        ))}
      </ul>
    </>
  );
};

const Keys = () => {
  const words = t.value;
  return (
    <>
      <h2>{words.keys}</h2>
      <dl class="keys">
        <div><dt><kbd>Ctrl K</kbd></dt><dd>{words.paletteLabel}</dd></div>
        <div><dt><kbd>/</kbd></dt><dd>{words.findJobs}</dd></div>
        {screens().map(({ letter, text }) => <div key={letter}><dt><kbd>g</kbd> <kbd>{letter}</kbd></dt><dd>{text}</dd></div>)}
        <div><dt><kbd>?</kbd></dt><dd>{words.keys}</dd></div>
      </dl>
    </>
  );
};

/** The key that was pressed before, if it begins a pair. */
let before = "";

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName));

const pressed = (event: KeyboardEvent): void => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    shown.value = "palette";
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const last = before;
  before = event.key;
  if (event.key === "?") shown.value = "keys";
  else if (event.key === "/") {
    event.preventDefault();
    const field = document.querySelector<HTMLInputElement>("#content input[type='search']");
    if (field) field.focus();
    else go(["jobs"]);
  } else if (last === "g") {
    const screen = screens().find(({ letter }) => letter === event.key);
    if (screen) go(screen.path);
  }
};

export const PaletteDialog = () => {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const present = shown.value;
  // Before the next letter that is typed.
  useLayoutEffect(() => {
    if (present !== "none" && dialog.current && !dialog.current.open) dialog.current.showModal();
  }, [present]);
  if (present === "none") return null;
  const close = () => {
    shown.value = "none";
  };
  return (
    <dialog
      class="palette" ref={dialog} aria-label={present === "keys" ? t.value.keys : t.value.paletteLabel}
      onCancel={(event) => { event.preventDefault(); close(); }} onClick={(event) => event.target === dialog.current && close()}
    >
      {present === "keys" ? <Keys /> : <Palette />}
    </dialog>
  );
};

export const PaletteButton = () => (
  <button type="button" class="palette-button" onClick={() => (shown.value = "palette")}>
    {t.value.find} <kbd>Ctrl K</kbd>
  </button>
);
