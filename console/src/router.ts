// Addresses within the console: `#/jobs?find=x`. What a person chose stands in the address, so that it can be shared.

import { computed, signal } from "@preact/signals";

/** A place in the console. */
export interface Place {
  /** The parts of the path, unescaped. */
  path: string[];
  query: Record<string, string>;
}

const read = (): Place => {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const unescaped = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { path: path.split("/").filter(Boolean).map(unescaped), query: Object.fromEntries(new URLSearchParams(query)) };
};

/** The present place. */
export const place = signal<Place>(read());
addEventListener("hashchange", () => {
  place.value = read();
});

/** The name of the screen. */
export const screen = computed(() => place.value.path[0] ?? "");
/** The values in the address. */
export const query = computed(() => place.value.query);

/** The address of a place. */
export const href = (path: string[], values: Record<string, string | undefined> = {}): string => {
  const said = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value) said.set(key, value);
  return `#/${path.map(encodeURIComponent).join("/")}${said.size === 0 ? "" : `?${said}`}`;
};

/** Goes to a place. */
export const go = (path: string[], values: Record<string, string | undefined> = {}): void => {
  location.hash = href(path, values);
};

/** Changes values in the address without a step in the browser's history. */
export const setQuery = (values: Record<string, string | undefined>): void => {
  const { path, query: old } = place.value;
  history.replaceState(null, "", href(path, { ...old, ...values }));
  place.value = read();
};
