// Small charts: bars and strips that say in words what they show.

import { t } from "../i18n";

/** A bar. */
export interface Bar {
  size: number;
  /** What it says when it is pointed at. */
  says: string;
  state?: string;
  href?: string;
}

/** Bars side by side; the tallest fills the height. */
export const Bars = ({ label, bars, height = 64 }: { label: string; bars: Bar[]; height?: number }) => {
  const most = Math.max(1, ...bars.map((bar) => bar.size));
  const width = 100 / Math.max(1, bars.length);
  return (
    <svg class="bars" viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" role={bars.some((bar) => bar.href) ? "group" : "img"} aria-label={label} style={{ height: `${height}px` }}>
      {bars.map(({ size, says, state, href }, n) => {
        const tall = size === 0 ? 0 : Math.max(1.5, (size / most) * (height - 2));
        const rect = (
          <rect x={n * width + width * 0.1} width={width * 0.8} y={height - tall} height={tall} data-state={state}>
            <title>{says}</title>
          </rect>
        );
        return href ? <a href={href} key={n} tabIndex={-1} aria-label={says}>{rect}</a> : <g key={n}>{rect}</g>;
      })}
    </svg>
  );
};

/** A cell of a strip. */
export interface Cell {
  state: "good" | "late" | "bad" | "none";
  says: string;
  href?: string;
}

/** A row of cells, one for each hour. */
export const Strip = ({ label, cells }: { label: string; cells: Cell[] }) => (
  <div class="strip" role="group" aria-label={`${label}: ${summaryOf(cells)}`}>
    {cells.map(({ state, says, href }, n) =>
      href ? <a class="cell" data-state={state} title={says} aria-label={says} href={href} tabIndex={-1} key={n} /> : <span class="cell" data-state={state} title={says} key={n} />,
    )}
  </div>
);

const summaryOf = (cells: Cell[]): string => {
  const count = (state: Cell["state"]) => cells.filter((cell) => cell.state === state).length;
  const { legend } = t.value;
  return (["bad", "late", "good", "none"] as const).map((state) => `${legend[state]}: ${count(state)}`).join(", ");
};
