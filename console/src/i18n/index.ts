// The language of the console.

import { computed, signal } from "@preact/signals";

import { en, type Messages } from "./en";
import { zh } from "./zh";

/** The languages, each under its tag. */
export const languages = { en, zh } satisfies Record<string, Messages>;
export type Language = keyof typeof languages;

const KEY = "evenkeel-language";

const preferred = (): Language => {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "en" || chosen === "zh") return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
};

export const language = signal<Language>(preferred());
/** The texts in the reader's language. */
export const t = computed<Messages>(() => languages[language.value]);

language.subscribe((tag) => {
  document.documentElement.lang = tag;
});

/** Changes the language and remembers it. */
export const speak = (tag: Language): void => {
  localStorage.setItem(KEY, tag);
  language.value = tag;
};
