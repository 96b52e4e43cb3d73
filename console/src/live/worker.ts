// The shared worker: one live stream for all pages of a browser that look at the same namespace.

import type { ToPage, ToWorker } from "./messages";
import { patched, type Json } from "./patch";
import { LiveStream } from "./stream";

/** A hidden page may be looked at again at once. */
const LINGER_MS = 5_000;

/** A page. */
interface Viewer {
  port: MessagePort;
  visible: boolean;
}

/** The pages that look at one namespace, and what they look at. */
class Channel {
  private readonly viewers = new Set<Viewer>();
  private readonly stream: LiveStream;
  private document: Json | undefined;
  private state: ToPage = { kind: "state", state: "lost", since: Date.now() };
  private closing: ReturnType<typeof setTimeout> | undefined;

  constructor(
    base: string,
    private readonly namespace: string,
  ) {
    const query = namespace === "" ? "" : `?namespace=${encodeURIComponent(namespace)}`;
    this.stream = new LiveStream(`${base}api/v1/live${query}`, {
      event: (kind, data) => {
        this.document = kind === "patch" ? patched(this.document, data) : data;
        if (kind === "patch") this.tell({ kind, patch: data, namespace });
        else this.tell({ kind: "document", document: data, namespace });
      },
      state: (state) => {
        if (this.state.kind === "state" && this.state.state === state) return;
        this.state = { kind: "state", state, since: Date.now() };
        this.tell(this.state);
      },
      loggedOut: () => this.tell({ kind: "logged-out" }),
    });
  }

  add(viewer: Viewer): void {
    this.viewers.add(viewer);
    if (this.document !== undefined) {
      viewer.port.postMessage({ kind: "document", document: this.document, namespace: this.namespace } satisfies ToPage);
      viewer.port.postMessage(this.state);
    }
    this.follow();
  }

  drop(viewer: Viewer): void {
    this.viewers.delete(viewer);
    this.follow();
  }

  /** Reads while a page is seen. */
  follow(): void {
    clearTimeout(this.closing);
    if ([...this.viewers].some((viewer) => viewer.visible)) this.stream.start();
    else this.closing = setTimeout(() => this.stream.stop(), LINGER_MS);
  }

  private tell(message: ToPage): void {
    for (const { port } of this.viewers) port.postMessage(message);
  }
}

const channels = new Map<string, Channel>();

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  const viewer: Viewer = { port, visible: false };
  let channel: Channel | undefined;
  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if (data.kind === "leave") return channel?.drop(viewer);
    viewer.visible = data.visible;
    const key = `${data.base} ${data.namespace}`;
    const wanted = channels.get(key) ?? new Channel(data.base, data.namespace);
    channels.set(key, wanted);
    if (wanted === channel) return channel.follow();
    channel?.drop(viewer);
    channel = wanted;
    channel.add(viewer);
  };
  port.start();
};
