// A chart of values over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

import "uplot/dist/uPlot.min.css";

import { language } from "../i18n";

/** A line. */
export interface Series {
  label: string;
  values: (number | null)[];
  /** The custom property of its colour, as `--accent`. */
  colour: string;
}

/** Lines over the same moments, which are in milliseconds. */
export const LineChart = ({ label, at, series }: { label: string; at: number[]; series: Series[] }) => {
  const box = useRef<HTMLDivElement>(null);
  const data = JSON.stringify([at, series, language.value]);
  useEffect(() => {
    const holder = box.current;
    if (!holder) return;
    const style = getComputedStyle(holder);
    const ink = style.getPropertyValue("--soft");
    const axis = { stroke: ink, grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { show: false } };
    const chart = new uPlot(
      {
        width: holder.clientWidth,
        height: 180,
        legend: { live: true },
        series: [{}, ...series.map((one) => ({ label: one.label, stroke: style.getPropertyValue(one.colour), width: 2 }))],
        axes: [axis, axis],
      },
      [at.map((moment) => moment / 1000), ...series.map((one) => one.values)],
      holder,
    );
    const resized = new ResizeObserver(() => chart.setSize({ width: holder.clientWidth, height: 180 }));
    resized.observe(holder);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [data]);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
};
