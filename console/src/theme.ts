// Light or dark.

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "evenkeel-theme";

const kept = (): Theme => {
  const chosen = localStorage.getItem(KEY);
  return chosen === "light" || chosen === "dark" ? chosen : "system";
};

export const theme = signal<Theme>(kept());
theme.subscribe((chosen) => {
  if (chosen === "system") {
    document.documentElement.removeAttribute("data-theme");
    localStorage.removeItem(KEY);
  } else {
    document.documentElement.setAttribute("data-theme", chosen);
    localStorage.setItem(KEY, chosen);
  }
});
