// Moments, spans and numbers as people read them, in the reader's own zone and language.

import { computed, signal } from "@preact/signals";

import { language, t } from "./i18n";

/** The present, which moves once a second. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** The reader's zone. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span in its largest unit. */
export const span = (ms: number): string => {
  const size = Math.abs(ms);
  const words = t.value.units;
  if (size < SECOND) return `${Math.round(size)} ${words.ms}`;
  if (size < 10 * SECOND) return `${(size / SECOND).toFixed(1)} ${words.s}`;
  if (size < MINUTE) return `${Math.floor(size / SECOND)} ${words.s}`;
  if (size < HOUR) return `${Math.floor(size / MINUTE)} ${words.min}`;
  if (size < 2 * DAY) return `${Math.floor(size / HOUR)} ${words.h}`;
  return `${Math.floor(size / DAY)} ${words.d}`;
};

/** How far a moment is from now. */
export const relative = (moment: number): string => {
  const ms = moment - now.value;
  if (Math.abs(ms) < SECOND) return t.value.now;
  const rounded = Math.abs(ms) < MINUTE ? Math.round(Math.abs(ms) / SECOND) * SECOND : Math.abs(ms);
  const said = rounded < MINUTE ? `${rounded / SECOND} ${t.value.units.s}` : span(rounded);
  return ms > 0 ? t.value.inSpan(said) : t.value.ago(said);
};

const formats = computed(() => ({
  time: new Intl.DateTimeFormat(language.value, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }),
  short: new Intl.DateTimeFormat(language.value, { hour: "2-digit", minute: "2-digit", hour12: false }),
  date: new Intl.DateTimeFormat(language.value, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
  }),
  number: new Intl.NumberFormat(language.value),
}));

/** A moment: the time of day if it is today, else with its date. */
export const clock = (moment: number): string => {
  const { time, date } = formats.value;
  const today = new Date(moment).toDateString() === new Date(now.value).toDateString();
  return (today ? time : date).format(moment);
};

/** The hour and minute of a moment. */
export const minute = (moment: number): string => formats.value.short.format(moment);

/** A moment with its date, in this zone. */
export const inZone = (moment: number, timeZone: string): string => {
  try {
    const format = new Intl.DateTimeFormat(language.value, {
      timeZone, weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
      second: "2-digit", hour12: false, timeZoneName: "short",
    });
    return format.format(moment);
  } catch {
    return new Date(moment).toISOString();
  }
};

export const number = (value: number): string => formats.value.number.format(value);
