// Keeps the console live: reads the stream of changes and writes what it shows as text nodes only.
// @ts-check

/** @typedef {{name: string, schedule: string, timezone: string, placement: string, owner: string | null, nodes: number, next: string | null, paused: boolean, disabled?: boolean, missing?: string[], unschedulable?: boolean}} Job */
/** @typedef {{run: string, job: string, shard: number, due: string, node: string, attempt: number, state: string, reason: string | null, started: string | null, ended: string | null}} Run */
/** @typedef {{name: string, held: number, quota: number, shards: number, alarm: number, state: string, labels: string[]}} Member */
/** @typedef {{node: string, shards: string, state: string, paused: boolean, disabled: boolean, shutdown: boolean}} Share */
/** @typedef {{shards: string, node: string | null, state: string, fire: string | null, due: string | null, attempt: number | null, failed_over: boolean, parameter: string, began: string | null}} Shard */
/** @typedef {{job: string, total: number, leader: string | null, reshard_pending: {why: string, since: string} | null, off: string, nodes: Share[], shards: Shard[]}} Sharing */
/** @typedef {{name: string, lines: number, jobs: number, version: number, since: string, description: string}} Calendar */
/** @typedef {{seq: number, at: string, node: string, kind: string, text: string}} Happening */
/** @typedef {{id: string, at: string, node: string, who: string, from: string, claims: string, verb: string, object: string, outcome: string, before?: number, after?: number, what: string}} Change */
/** The document of the stream: each row stands under a key of its own, and what would be null is left out. @typedef {{[key: string]: any}} Live */
/** @typedef {{node: string, closed: boolean, jobs: Job[], enabled: number, more: boolean, calendars: Calendar[], nodes: Member[], running: number, runs: Run[], sharded: string[], events: Happening[], audit: Change[], missing: string[]}} Picture */

/** The node says every 15 s that it lives, if nothing else: who hears nothing for so long is cut off. */
const SILENCE_MS = 40_000;
/** An answer to anything else is waited for so long. */
const PATIENCE_MS = 20_000;
/** What went well stands so long. */
const READ_MS = 8_000;
/** So many of the jobs that are looked for are shown. */
const FOUND = 200;
/** Who types is not asked for each letter. */
const TYPING_MS = 150;

/** @param {string} id @returns {HTMLElement} */
const at = (id) => {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
};

/**
 * @param {string} tag @param {Record<string, string>} attributes @param {(Node | string | number)[]} inside
 */
const el = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const part of inside) made.append(typeof part === "number" ? String(part) : part);
  return made;
};

/** @param {string} id @param {string | number} text */
const say = (id, text) => {
  if (at(id).textContent !== String(text)) at(id).textContent = String(text);
};

/** @param {string} state */
const chip = (state) => el("span", { class: "chip", "data-state": state }, state.replaceAll("_", " "));

/** @param {number} ms */
const span = (ms) => {
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} days`;
};

/** @param {number} ms */
const relative = (ms) => (Math.abs(ms) < 500 ? "now" : ms > 0 ? `in ${span(ms)}` : `${span(ms)} ago`);

/** @param {Date} date */
const clock = (date) => {
  const day = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString([], { hour12: false });
  return day ? time : `${date.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" })} ${time}`;
};

/** @param {string | null} moment */
const time = (moment) => {
  if (!moment) return "–";
  const date = new Date(moment);
  const small = el("small", {}, relative(date.getTime() - Date.now()));
  return el("time", { datetime: moment, title: moment }, clock(date), small);
};

/** @param {Run} run */
const took = (run) => {
  if (!run.started) return "–";
  if (!run.ended) return el("span", { "data-since": run.started }, span(Date.now() - Date.parse(run.started)));
  const ms = Date.parse(run.ended) - Date.parse(run.started);
  return ms < 10_000 ? `${Math.max(ms, 0)} ms` : span(ms);
};

/** @param {string} path @param {string} done what to say when it was done */
const order = async (path, done) => {
  const headers = { "Content-Type": "application/json" };
  const signal = AbortSignal.timeout(PATIENCE_MS);
  try {
    const answer = await fetch(`api/v1${path}`, { method: "POST", headers, body: "{}", signal });
    const body = await answer.json();
    if (!answer.ok) return notice(body.detail);
    // What the verb promises does not come of it, as the warnings tell.
    if (body.warnings?.length) return notice(`${done} But ${body.warnings.join("; ")}.`);
    notice(body.run ? `${done}: run ${body.run}.` : done, "good");
  } catch {
    notice("The node does not answer: look whether it was done before you ask again.");
  }
};

/** The part of the cluster that this page shows, as a query. */
const part = () => {
  const namespace = document.querySelector("main")?.getAttribute("data-namespace") ?? "";
  return namespace === "" ? "" : `namespace=${encodeURIComponent(namespace)}`;
};

/** @type {number | undefined} */
let fading;

/** @param {string} text @param {"good" | "bad"} kind */
const notice = (text, kind = "bad") => {
  clearTimeout(fading);
  at("notice").setAttribute("data-kind", kind);
  say("notice", text);
  if (kind === "good") fading = setTimeout(() => say("notice", ""), READ_MS);
};

/** Fetched and not linked to, so that a refusal is shown on this page. @param {Run} run */
const save = async (run) => {
  try {
    const path = `api/v1/runs/${encodeURIComponent(run.run)}/logs?attempt=${run.attempt}&download=true`;
    const answer = await fetch(path);
    if (!answer.ok) return notice((await answer.json()).detail);
    const output = await answer.blob();
    if (output.size === 0) return notice(`Attempt ${run.attempt} of run ${run.run} has written nothing.`, "good");
    const href = URL.createObjectURL(output);
    const download = `${run.run.replaceAll(":", "_")}.${run.attempt}.log`;
    el("a", { href, download }).click();
    URL.revokeObjectURL(href);
    notice(`Saved as ${download}.`, "good");
  } catch {
    notice("The output did not come whole: try again.");
  }
};

/**
 * A button; who hears the page hears also what it is about. While it acts it cannot be pressed, but keeps the focus.
 * @param {string} label @param {string} about @param {() => Promise<void>} act
 */
const acting = (label, about, act) => {
  const made = el("button", { type: "button", "aria-label": `${label}: ${about}` }, label);
  made.addEventListener("click", async () => {
    if (made.hasAttribute("aria-disabled")) return;
    made.setAttribute("aria-disabled", "true");
    await act();
    made.removeAttribute("aria-disabled");
  });
  return made;
};

/** @param {string} label @param {string} about @param {string} path */
const button = (label, about, path) => acting(label, about, () => order(path, `${label} ${about}: done.`));

/** @param {string} about @param {string} path */
const starter = (about, path) => acting("Run now", about, () => order(path, "Asked for"));

/** What the section of a job was opened with, and gets the focus back. @type {HTMLElement | null} */
let opener = null;

/** @param {string} name */
const link = (name) => {
  const made = el("a", { href: `./?job=${encodeURIComponent(name)}#job` }, name);
  made.addEventListener("click", (event) => {
    event.preventDefault();
    opener = made;
    choose(name);
    at("job-name").focus();
    at("job").scrollIntoView({ block: "start" });
  });
  return made;
};

/** What the owner does, where it does not simply hold the job. @param {Job} job */
const duty = (job) => {
  const says = job.placement === "sharded" ? (job.nodes > 0 ? `leads ${job.nodes}` : "leads") : "plans";
  const told = job.placement === "sharded" || (job.placement === "dispatched" && job.owner);
  return told ? [" ", el("small", {}, says)] : [];
};

/** Its rules, each whole. @param {Job} job */
const rules = (job) => (job.schedule || "manual runs only").split("; ").flatMap((rule) => [el("code", {}, rule), " "]);

/** When a job is due next, or what keeps it from ever being. @param {Job} job */
const due = (job) => {
  if (job.disabled) return chip("disabled");
  if (job.missing?.length) return el("span", { class: "chip", "data-state": "waiting" }, `no calendar ${job.missing[0]}`);
  if (job.unschedulable) return el("span", { class: "chip", "data-state": "waiting" }, "no node fits");
  return job.paused ? chip("paused") : time(job.next);
};

/** @param {Job} job */
const jobRow = (job) => {
  const path = `/jobs/${encodeURIComponent(job.name)}`;
  const verb = job.disabled ? "Enable" : job.paused ? "Resume" : "Pause";
  const toggle = button(verb, job.name, `${path}/${verb.toLowerCase()}`);
  return [
    el("td", { class: "name" }, job.placement === "sharded" ? link(job.name) : job.name),
    el("td", { class: "words" }, ...rules(job), el("small", {}, job.timezone)),
    el("td", {}, due(job)),
    el("td", {}, job.owner ?? "–", ...duty(job)),
    el("td", { class: "actions" }, starter(job.name, `${path}/run`), toggle),
  ];
};

/** Those of the latest runs' jobs that are sharded. @type {Set<string>} */
let sharded = new Set();

/** @param {Run} run */
const runRow = (run) => [
  el("td", { class: "name", title: run.run }, ...(sharded.has(run.job) ? [link(run.job), " ", el("small", {}, `shard ${run.shard}`)] : [run.job])),
  el("td", { class: "words" }, chip(run.state), " ", el("small", {}, run.reason ?? "")),
  el("td", {}, time(run.due)),
  el("td", { class: "number" }, took(run)),
  el("td", {}, run.node),
  el("td", { class: "number" }, run.attempt),
  el(
    "td",
    { class: "actions" },
    ...(run.started ? [acting("Output", `${run.run}, attempt ${run.attempt}`, () => save(run))] : []),
    ...(["running", "waiting"].includes(run.state) ? [button("End", run.run, `/runs/${encodeURIComponent(run.run)}/kill`)] : []),
  ),
];

/** @param {Member} node */
const nodeRow = (node) => [
  el("td", { class: "name" }, node.name, ...(node.labels.length ? [" ", el("small", {}, node.labels.join(","))] : [])),
  el("td", {}, chip(node.state)),
  el("td", { class: "number" }, node.held),
  el("td", { class: "number" }, node.quota),
  el("td", { class: "number" }, node.shards),
  el("td", { class: "number" }, node.alarm),
];

/** @type {Record<string, string>} */
const causes = {
  elected: "a leader was elected",
  nodes: "nodes came, went or were switched",
  shards: "the number of shards changed",
  strategy: "the way of cutting changed",
  draining: "shards that were left where they ran have ended",
  repair: "the shares were not whole",
};

/** @param {Share} share */
const shareRow = (share) => {
  const path = `/jobs/${encodeURIComponent(chosen())}`;
  const node = `?node=${encodeURIComponent(share.node)}`;
  const about = `${chosen()} on ${share.node}`;
  const verbs = [];
  if (share.shards !== "" && share.state !== "gone") verbs.push(starter(about, `${path}/run${node}`));
  verbs.push(share.paused ? button("Resume", about, `${path}/resume${node}`) : button("Pause", about, `${path}/pause${node}`));
  verbs.push(share.disabled ? button("Enable", about, `${path}/enable${node}`) : button("Disable", about, `${path}/disable${node}`));
  if (share.state !== "gone" && !share.shutdown) verbs.push(button("Shut down", about, `${path}/shutdown${node}`));
  return [
    el("td", { class: "name" }, share.node),
    el("td", {}, chip(share.state), ...(share.paused && share.state !== "paused" ? [" ", chip("paused")] : [])),
    el("td", { class: "words" }, share.shards || "–"),
    el("td", { class: "actions" }, ...verbs),
  ];
};

/** @param {Shard} row */
const shardRow = (row) => {
  const path = `/jobs/${encodeURIComponent(chosen())}/shards/${encodeURIComponent(row.shards)}`;
  const about = `shards ${row.shards} of ${chosen()}`;
  return [
    el("td", { class: "name" }, row.shards),
    el("td", {}, row.node ?? "–"),
    el("td", {}, chip(row.state), ...(row.failed_over ? [" ", el("small", {}, "failed over")] : [])),
    el("td", {}, row.fire?.startsWith("ask-") ? row.fire : time(row.due)),
    el("td", { class: "number" }, row.attempt ?? "–"),
    el("td", { class: "words" }, row.parameter || "–"),
    el("td", {}, time(row.began)),
    el("td", { class: "actions" }, row.state === "off" ? button("Enable", about, `${path}/enable`) : button("Disable", about, `${path}/disable`)),
  ];
};

/** The sharded job that is looked at; empty when none is. */
const chosen = () => at("job").getAttribute("data-job") ?? "";

/** What the names of the jobs hold that are looked for; empty while all are shown. */
let finding = "";

/** The latest picture. @type {Picture | undefined} */
let latest;

/** What is chosen and looked for stands in the page's address. */
const address = () => {
  const said = new URLSearchParams();
  if (chosen() !== "") said.set("job", chosen());
  if (finding !== "") said.set("find", finding);
  history.replaceState(null, "", said.size === 0 ? "/" : `/?${said}`);
};

/** @param {Job[]} jobs @param {boolean} more */
const showJobs = (jobs, more) => {
  fill("job-rows", "", jobs, (job) => job.name, jobRow);
  at("no-jobs").hidden = jobs.length > 0 || finding !== "";
  at("none-found").hidden = jobs.length > 0 || finding === "";
  at("more-jobs").hidden = !more;
};

/** The question under way, and whether another one is to follow it. @type {AbortController | undefined} */
let asking;
let again = false;

/** Shows the jobs that are looked for; pictures have the first of all jobs only. */
const find = async () => {
  if (finding === "") return latest && showJobs(latest.jobs, latest.more);
  at("no-jobs").hidden = true;
  if (asking) return void (again = true);
  do {
    again = false;
    const text = finding;
    asking = new AbortController();
    const patience = setTimeout(() => asking?.abort(), PATIENCE_MS);
    try {
      const path = `api/v1/jobs?limit=${FOUND}&find=${encodeURIComponent(text)}&${part()}`;
      const answer = await fetch(path, { signal: asking.signal });
      /** @type {{jobs: Job[], after: string | null} | undefined} */
      const found = answer.ok ? await answer.json() : undefined;
      if (found && text === finding) showJobs(found.jobs, found.after !== null);
    } catch {
      // It is asked again soon.
    } finally {
      clearTimeout(patience);
      asking = undefined;
    }
  } while (again && finding !== "");
};

/** @param {string} name */
const choose = (name) => {
  at("job").setAttribute("data-job", name);
  at("job").hidden = name === "";
  address();
  for (const id of ["share-rows", "shard-rows"]) at(id).replaceChildren();
  say("job-name", name);
  say("job-line", "");
  look().catch(() => undefined);
};

/** @param {number} n @param {string} what */
const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** Shows the chosen job anew: its lanes are asked of the registry, and only while somebody looks. */
const look = async () => {
  const name = chosen();
  if (name === "") return;
  const path = `api/v1/jobs/${encodeURIComponent(name)}/shards?fold=true`;
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (name !== chosen()) return;
  if (answer.status === 400 || answer.status === 404) {
    notice(`There is no sharded job ${name}.`);
    return choose("");
  }
  if (!answer.ok) return;
  /** @type {Sharing} */
  const found = await answer.json();
  const holders = found.nodes.filter((node) => node.shards !== "").length;
  say("job-name", name);
  say("job-line", `${counted(found.total, "shard")} on ${counted(holders, "node")}, led by ${found.leader ?? "no node"}`);
  const mark = found.reshard_pending;
  const said = mark ? `To be resharded before the next fire: ${causes[mark.why] ?? mark.why}, since ` : "";
  if (at("job-mark").getAttribute("data-text") !== JSON.stringify(mark)) {
    at("job-mark").replaceChildren(said, ...(mark ? [time(mark.since)] : []));
    at("job-mark").setAttribute("data-text", JSON.stringify(mark));
  }
  at("job-mark").hidden = !mark;
  fill("share-rows", "", found.nodes, (node) => node.node, shareRow);
  fill("shard-rows", "", found.shards, (row) => row.shards, shardRow);
};

/**
 * Writes the cells that have changed: so a button is not replaced under the hand that presses it.
 * @param {Element} row @param {HTMLElement[]} fresh
 */
const refill = (row, fresh) => {
  const held = row.contains(document.activeElement) ? [...row.querySelectorAll("a, button")].indexOf(/** @type {Element} */ (document.activeElement)) : -1;
  [...row.children].forEach((old, n) => {
    if (!old.isEqualNode(fresh[n])) old.replaceWith(fresh[n]);
  });
  const now = row.querySelectorAll("a, button")[held];
  if (now instanceof HTMLElement && now !== document.activeElement) now.focus();
};

/**
 * Writes rows. Those that were there stay in the page, and so does what is focused or selected in them.
 * @template T
 * @param {string} id @param {string} none @param {T[]} rows @param {(row: T) => string} key @param {(row: T) => HTMLElement[]} cells
 */
const fill = (id, none, rows, key, cells) => {
  const body = at(id);
  const heads = [...(body.closest("table")?.querySelectorAll("thead th") ?? [])].map((head) => head.textContent ?? "");
  /** On a narrow page each cell stands under its own head. @param {T} row */
  const headed = (row) => {
    const made = cells(row);
    made.forEach((cell, n) => cell.setAttribute("data-head", heads[n] ?? ""));
    return made;
  };
  const old = new Map([...body.children].map((row) => [row.getAttribute("data-key"), row]));
  const fresh = rows.map((row) => {
    const text = JSON.stringify(row);
    const kept = old.get(key(row));
    if (!kept) return el("tr", { "data-key": key(row), "data-text": text }, ...headed(row));
    if (kept.getAttribute("data-text") !== text) {
      refill(kept, headed(row));
      kept.setAttribute("data-text", text);
    }
    return kept;
  });
  const stays = new Set(fresh);
  for (const row of [...body.children]) if (!stays.has(row)) row.remove();
  fresh.forEach((row, n) => {
    if (body.children[n] !== row) body.insertBefore(row, body.children[n] ?? null);
  });
  const table = body.closest("table");
  if (table) table.hidden = rows.length === 0;
  if (none) at(none).hidden = rows.length > 0;
};

/** @param {Calendar} calendar */
const calendarRow = (calendar) => [
  el("td", { class: "name" }, calendar.name),
  el("td", {}, calendar.lines),
  el("td", {}, calendar.jobs),
  el("td", {}, time(calendar.since), " ", el("small", {}, `version ${calendar.version}`)),
  el("td", { class: "words" }, calendar.description),
];

/** @param {Happening} event */
const eventRow = (event) => [
  el("td", {}, time(event.at)),
  el("td", { class: "name" }, event.node),
  el("td", {}, chip(event.kind)),
  el("td", { class: "words" }, event.text),
];

/** @param {Change} entry */
const auditRow = (entry) => {
  const from = entry.from === "" ? "" : ` from ${entry.from}`;
  const claims = entry.claims === "" ? "" : `, says ${entry.claims}`;
  const versions = entry.before === undefined && entry.after === undefined ? "" : `version ${entry.before ?? "none"} → ${entry.after ?? "none"}`;
  return [
    el("td", {}, time(entry.at)),
    el("td", { class: "words" }, `${entry.who}${from}${claims}`),
    el("td", { class: "name" }, `${entry.verb} ${entry.object}`),
    el("td", {}, chip(entry.outcome)),
    el("td", { class: "words" }, [versions, entry.what].filter((part) => part !== "").join(": ")),
    el("td", {}, entry.node),
  ];
};

/**
 * Applies a JSON Merge Patch (RFC 7396). Objects without a prototype have no key but their own.
 * @param {any} target @param {any} patch @returns {any}
 */
const patched = (target, patch) => {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const whole = target !== null && typeof target === "object" && !Array.isArray(target) ? target : {};
  const made = Object.assign(Object.create(null), whole);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete made[key];
    else made[key] = patched(made[key], value);
  }
  return made;
};

/** Rows in the order of their keys. @param {{[key: string]: any}} rows */
const byKey = (rows) => Object.keys(rows).sort().map((key) => rows[key]);

/**
 * Rows in the order of a moment, the latest first. Of one moment, rows of one history stand in its order.
 * @param {{[key: string]: any}} rows @param {(row: any) => string} moment
 */
const latestFirst = (rows, moment) =>
  byKey(rows).reverse().sort((a, b) => Date.parse(moment(b)) - Date.parse(moment(a)) || (b.seq ?? 0) - (a.seq ?? 0));

/** The document as the page shows it. @param {Live} live @returns {Picture} */
const pictured = (live) => ({
  .../** @type {Picture} */ (live),
  jobs: byKey(live.jobs),
  calendars: byKey(live.calendars),
  nodes: byKey(live.nodes),
  runs: latestFirst(live.runs, (run) => run.started ?? run.ended ?? run.due),
  sharded: Object.keys(live.sharded),
  events: latestFirst(live.events, (event) => event.at),
  audit: latestFirst(live.audit, (entry) => entry.at),
  missing: Object.keys(live.missing).sort(),
});

/** @param {Picture} picture */
const paint = (picture) => {
  document.querySelector("main")?.removeAttribute("hidden");
  say("count-jobs", picture.enabled);
  say("count-nodes", picture.nodes.length);
  say("count-running", picture.running);
  say("shown-by", picture.node);
  sharded = new Set(picture.sharded);
  latest = picture;
  find();
  fill("run-rows", "no-runs", picture.runs, (run) => `${run.run}#${run.attempt}`, runRow);
  fill("calendar-rows", "no-calendars", picture.calendars, (calendar) => calendar.name, calendarRow);
  fill("node-rows", "no-nodes", picture.nodes, (node) => node.name, nodeRow);
  fill("event-rows", "no-events", picture.events, (event) => `${event.node} ${event.seq}`, eventRow);
  fill("audit-rows", "no-audit", picture.audit, (entry) => entry.id, auditRow);
  at("missing").hidden = !picture.missing.length;
  say("missing", `${picture.missing.join(", ")} ${picture.missing.length === 1 ? "does" : "do"} not answer; what only their histories have is not shown.`);
  at("closed").hidden = !picture.closed;
  look().catch(() => undefined);
};

/** Moves what is said relative to now. */
const tick = () => {
  for (const said of document.querySelectorAll("time[title]")) {
    const small = said.querySelector("small");
    const moment = Date.parse(said.getAttribute("datetime") ?? "");
    if (small) small.textContent = relative(moment - Date.now());
  }
  for (const running of document.querySelectorAll("[data-since]")) {
    running.textContent = span(Date.now() - Date.parse(running.getAttribute("data-since") ?? ""));
  }
};

/** @param {"live" | "lost" | "still"} state @param {string} text */
const pulse = (state, text) => {
  at("pulse").setAttribute("data-state", state);
  say("pulse", text);
};

/** When the node was heard last. */
let last = new Date();

/** @type {number | undefined} */
let unheard;

/** The document of the stream as of its last event, and that event's id. @type {Live} */
let live = {};
let lastId = "";

/** Takes an event of the stream; a comment is none. @param {string} block */
const take = (block) => {
  /** @type {{[field: string]: string}} */
  const event = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (event.data === undefined) return;
  live = patched(event.event === "patch" ? live : {}, JSON.parse(event.data));
  lastId = event.id ?? "";
  paint(pictured(live));
};

/** Reads the stream until it ends; without a session, the page becomes the login form. */
const follow = async () => {
  const silence = new AbortController();
  const heard = () => {
    clearTimeout(unheard);
    unheard = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  // The stream goes on after the event that the page has; where the node does not know it, with the whole document.
  /** @type {Record<string, string>} */
  const headers = lastId === "" ? {} : { "Last-Event-ID": lastId };
  const answer = await fetch(`api/v1/live?${part()}`, { headers, signal: silence.signal });
  if (answer.status === 401) return location.reload();
  if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
  last = new Date();
  pulse("live", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    last = new Date();
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    blocks.forEach(take);
  }
};

const run = async () => {
  setInterval(tick, 1000);
  setInterval(() => look().catch(() => undefined), 2000);
  // Of jobs beyond the first no picture says that they have changed.
  setInterval(() => finding !== "" && find(), 2000);
  document.querySelector("#job .close")?.addEventListener("click", (event) => {
    event.preventDefault();
    choose("");
    opener?.focus();
  });
  const asked = new URLSearchParams(location.search);
  const input = /** @type {HTMLInputElement} */ (at("find"));
  input.value = finding = (asked.get("find") ?? "").trim();
  /** @type {number | undefined} */
  let typing;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      finding = input.value.trim();
      address();
      asking?.abort();
      find();
    }, TYPING_MS);
  });
  at("finding").addEventListener("submit", (event) => event.preventDefault());
  choose(asked.get("job") ?? "");
  say("zone", `times are in your own zone, ${Intl.DateTimeFormat().resolvedOptions().timeZone}`);
  for (let patience = 500; ; patience = Math.min(patience * 2, 10_000)) {
    try {
      if (await follow()) continue;
      patience = 500;
    } catch {
      // Said below; the node may just be starting again.
    }
    clearTimeout(unheard);
    pulse("lost", `no answer since ${clock(last)}, trying again`);
    await new Promise((resolve) => setTimeout(resolve, patience));
  }
};

run();
