// Calls of the HTTP API, typed by its description.

import type { components, paths } from "./schema";

/** The types of answers and bodies. */
export type Schemas = components["schemas"];

type Verb = "get" | "post" | "put" | "delete";
/** The addresses that have this verb. */
type PathOf<V extends Verb> = {
  [P in keyof paths]: paths[P] extends { [K in V]: infer O } ? ([O] extends [undefined] ? never : P) : never;
}[keyof paths] &
  string;
type OperationOf<P extends keyof paths, V extends Verb> = Exclude<paths[P][V & keyof paths[P]], undefined>;
type QueryOf<O> = O extends { parameters: { query?: infer Q } } ? Exclude<Q, undefined> : never;
type KeysOf<O> = O extends { parameters: { path: infer K } } ? K : Record<string, never>;
type BodyOf<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
type AnswerOf<O> = O extends { responses: { 200: { content: { "application/json": infer A } } } } ? A : unknown;

/** What a call has beside its address. */
export interface CallOptions<O> {
  /** The names in the address. */
  keys?: KeysOf<O>;
  query?: { [K in keyof QueryOf<O>]?: QueryOf<O>[K] | undefined };
  body?: BodyOf<O>;
  /** The version that was read: the change is refused if there is another one by now. */
  version?: number | "*";
  /** Whether it is refused if there is such an object already. */
  absent?: boolean;
  signal?: AbortSignal;
}

/** A call waits so long for its answer. */
const PATIENCE_MS = 20_000;

/** A refusal, or a failure to reach the node: `status` is 0 then. */
export class CallError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** The present version, where an edit was stale. */
    readonly version: number | undefined = undefined,
  ) {
    super(detail);
  }
}

/** The address of a call, relative to the page, so that the console works below any prefix. */
export const address = (path: string, keys: object = {}, query: object = {}): string => {
  let filled = path;
  for (const [key, value] of Object.entries(keys)) filled = filled.replace(`{${key}}`, encodeURIComponent(String(value)));
  const said = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") said.set(key, String(value));
  }
  return filled.slice(1) + (said.size === 0 ? "" : `?${said}`);
};

const refusal = async (answer: Response): Promise<CallError> => {
  try {
    const problem = (await answer.json()) as Schemas["Problem"];
    return new CallError(answer.status, problem.code, problem.detail, problem.version);
  } catch {
    return new CallError(answer.status, "unknown", `HTTP ${answer.status}`);
  }
};

/** Sends a request; an answer that is no success is a `CallError`. A caller without a session gets the login form. */
export const send = async (target: string, init: RequestInit): Promise<Response> => {
  let answer: Response;
  try {
    answer = await fetch(target, init);
  } catch (error) {
    if (init.signal?.aborted && (error as Error).name === "AbortError") throw error;
    throw new CallError(0, "unreachable", (error as Error).message);
  }
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw await refusal(answer);
  return answer;
};

const call = async <V extends Verb, P extends PathOf<V>>(
  verb: V,
  path: P,
  options: CallOptions<OperationOf<P, V>>,
): Promise<AnswerOf<OperationOf<P, V>>> => {
  const headers: Record<string, string> = {};
  const init: RequestInit = { method: verb.toUpperCase(), headers };
  const late = AbortSignal.timeout(PATIENCE_MS);
  init.signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
  if (verb !== "get") {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(options.body ?? {});
  }
  if (options.version !== undefined) headers["If-Match"] = options.version === "*" ? "*" : `"${options.version}"`;
  if (options.absent) headers["If-None-Match"] = "*";
  const answer = await send(address(path, options.keys as object | undefined, options.query), init);
  return (await answer.json()) as AnswerOf<OperationOf<P, V>>;
};

export const get = <P extends PathOf<"get">>(path: P, options: CallOptions<OperationOf<P, "get">> = {}) => call("get", path, options);
export const post = <P extends PathOf<"post">>(path: P, options: CallOptions<OperationOf<P, "post">> = {}) =>
  call("post", path, options);
export const put = <P extends PathOf<"put">>(path: P, options: CallOptions<OperationOf<P, "put">> = {}) => call("put", path, options);
export const remove = <P extends PathOf<"delete">>(path: P, options: CallOptions<OperationOf<P, "delete">> = {}) =>
  call("delete", path, options);
