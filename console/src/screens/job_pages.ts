// The jobs of the list, page by page: a list of 100,000 jobs is never fetched whole unless a person scrolls through it.

import { signal } from "@preact/signals";

import { get, type Schemas } from "../api/client";

export type JobRow = Schemas["JobRow"];

/** What is looked for. */
export interface JobSearch {
  find: string;
  label: string;
  namespace: string;
}

const PAGE = 500;
/** Where the node does not say how many there are, so many rows are fetched to count them. */
const COUNTED = 20_000;
/** The outcomes of so many rows are fetched at once. */
const DETAIL = 60;

/** The rows that were fetched, in the order of their names. */
export class JobPages {
  readonly rows = signal<JobRow[]>([]);
  readonly total = signal<number | undefined>(undefined);
  readonly error = signal<string | undefined>(undefined);
  readonly loaded = signal(false);
  /** What the rows in sight ran last. */
  readonly runs = signal<Map<string, Schemas["JobRunsRow"]>>(new Map());
  private after: string | null | undefined;
  private fetching = false;
  private readonly abort = new AbortController();

  constructor(private readonly search: JobSearch) {
    void this.count();
  }

  /** Fetches the first page, and more until the number of jobs is known. */
  private async count(): Promise<void> {
    do {
      if (!(await this.more())) return;
    } while (this.total.value === undefined && this.rows.value.length < COUNTED);
  }

  /** Gives up what is under way. */
  stop(): void {
    this.abort.abort();
  }

  get whole(): boolean {
    return this.after === null;
  }

  /** Fetches pages until there are rows up to this index. */
  async reach(index: number): Promise<void> {
    while (!this.whole && this.rows.value.length <= index && !this.abort.signal.aborted) {
      if (!(await this.more())) return;
    }
  }

  private async more(): Promise<boolean> {
    if (this.fetching || this.whole) return false;
    this.fetching = true;
    try {
      const query = { ...this.search, limit: PAGE, after: this.after ?? undefined };
      const page = await get("/api/v1/jobs", { query, signal: this.abort.signal });
      this.rows.value = [...this.rows.value, ...page.jobs];
      if (page.total !== undefined && page.total !== null) this.total.value = page.total;
      if (page.after === null) this.total.value = this.rows.value.length;
      this.after = page.after;
      this.error.value = undefined;
      this.loaded.value = true;
      return true;
    } catch (error) {
      if (!this.abort.signal.aborted) this.error.value = (error as Error).message;
      return false;
    } finally {
      this.fetching = false;
    }
  }

  /** Fetches these rows anew, with what they ran last. */
  async refresh(from: number, to: number): Promise<void> {
    const rows = this.rows.value;
    const first = rows[from];
    if (!first) return;
    const after = from === 0 ? undefined : rows[from - 1]?.name;
    const limit = Math.min(DETAIL, to - from);
    try {
      const page = await get("/api/v1/jobs", { query: { ...this.search, with: "runs", limit, after }, signal: this.abort.signal });
      const fresh = new Map(page.jobs.map((job) => [job.name, job]));
      const runs = new Map(this.runs.value);
      for (const job of page.jobs) if (job.runs) runs.set(job.name, job.runs);
      this.runs.value = runs;
      // Rows that were declared or deleted since shift the others: the list is as it was, with what has changed in it.
      this.rows.value = this.rows.value.map((row) => fresh.get(row.name) ?? row);
    } catch {
      // The next turn fetches them.
    }
  }
}
