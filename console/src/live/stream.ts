// Reads the live stream of one namespace: the document first, then its changes, again and again until it is closed.

import type { Json } from "./patch";

/** A node says every 15 s that it lives, if nothing else: one that is silent for so long is lost. */
const SILENCE_MS = 40_000;
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 10_000;

/** What a stream reports. */
export interface StreamListener {
  event(kind: "snapshot" | "patch", data: Json): void;
  state(state: "live" | "lost"): void;
  loggedOut(): void;
}

/** One stream, which goes on after the last event when it breaks off. */
export class LiveStream {
  private lastId = "";
  private stopped: AbortController | undefined;

  constructor(
    private readonly target: string,
    private readonly listener: StreamListener,
  ) {}

  /** Starts to read, unless it does already. */
  start(): void {
    if (this.stopped) return;
    this.stopped = new AbortController();
    void this.run(this.stopped);
  }

  /** Closes the connection; `start` goes on after the last event. */
  stop(): void {
    this.stopped?.abort();
    this.stopped = undefined;
  }

  private async run(stopped: AbortController): Promise<void> {
    let wait = RETRY_MIN_MS;
    while (!stopped.signal.aborted) {
      try {
        await this.read(stopped.signal);
        wait = RETRY_MIN_MS;
      } catch {
        // The node may just be starting again; the state says so.
      }
      if (stopped.signal.aborted) return;
      this.listener.state("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, RETRY_MAX_MS);
    }
  }

  private async read(stopped: AbortSignal): Promise<void> {
    const silence = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    };
    heard();
    try {
      const headers: Record<string, string> = this.lastId === "" ? {} : { "Last-Event-ID": this.lastId };
      const answer = await fetch(this.target, { headers, signal: AbortSignal.any([stopped, silence.signal]) });
      if (answer.status === 401) return this.listener.loggedOut();
      if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
      this.listener.state("live");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        heard();
        const blocks = (text + value).split("\n\n");
        text = blocks.pop() ?? "";
        blocks.forEach((block) => this.take(block));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** Takes an event; a comment is none. */
  private take(block: string): void {
    const event: Record<string, string> = {};
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
    }
    if (event["data"] === undefined) return;
    this.lastId = event["id"] ?? "";
    this.listener.event(event["event"] === "patch" ? "patch" : "snapshot", JSON.parse(event["data"]) as Json);
  }
}
