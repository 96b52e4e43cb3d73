// The console in a real browser.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { Cluster, JOBS } from "./cluster.mjs";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PATIENCE = { timeout: 120_000 };
/** The screens take a second each. */
const ALL_SCREENS = { timeout: 300_000 };
/** One step waits so long. */
const STEP_MS = 30_000;
/** What an idle page may fetch in a minute, in bytes. */
const IDLE_MAX = 50_000;

let cluster;
let url;
let browser;

/** A page that is logged in; it fails the test for every error on it and every dialog that a script opens. */
const opened = async (options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, locale: "en-US", timezoneId: "America/New_York", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_MS);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.faults.push(message.text()));
  page.on("dialog", (dialog) => {
    page.faults.push(`a script opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(cluster.loginLink(url));
  await page.waitForSelector("#content h1");
  return page;
};

const show = async (page, place) => {
  await page.goto(`${url}/#/${place}`);
  await page.waitForSelector("#content h1");
};

const ended = async (page) => {
  assert.deepEqual(page.faults, []);
  await page.context().close();
};

before(async () => {
  cluster = new Cluster(process.env.EVENKEEL_PROGRAM);
  url = await cluster.start("a");
  await cluster.start("b");
  cluster.run(url, ["apply", "-f", "-"], JOBS);
  const paths = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const executablePath = paths.find((path) => path && existsSync(path));
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});

after(async () => {
  await browser?.close();
  cluster?.end();
});

test("no screen has a serious fault for people who do not see, in both schemes, languages and widths", ALL_SCREENS, async () => {
  const page = await opened();
  const latest = async () => (await (await page.request.get(`${url}/api/v1/runs?job=flaky&state=failed&limit=1`)).json()).runs[0]?.run;
  let run = await latest();
  while (run === undefined) {
    await page.waitForTimeout(200);
    run = await latest();
  }
  const places = ["", "jobs", "jobs/nightly", "jobs/split", "jobs/nightly/edit", "new-job", "runs", `runs/${encodeURIComponent(run)}`, "nodes", "nodes/a", "calendars", "calendars/holidays", "health", "activity", "activity?tab=audit"];
  await ended(page);
  for (const [colorScheme, locale, width] of [["light", "en-US", 1400], ["dark", "zh-CN", 1400], ["light", "zh-CN", 420], ["dark", "en-US", 420]]) {
    const seen = await opened({ colorScheme, locale, viewport: { width, height: 900 } });
    for (const place of places) {
      await show(seen, place);
      await seen.waitForTimeout(600);
      // The policy of the page lets no script in but its own; a debugger's is let in.
      await seen.evaluate(AXE);
      const found = await seen.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const bad = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      assert.deepEqual(bad.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`), [], `${place} ${colorScheme} ${locale} ${width}`);
      const wider = await seen.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 1, `${place} at ${width} is wider than the page, by ${wider}`);
      assert.equal(await seen.getAttribute("html", "lang"), locale === "zh-CN" ? "zh" : "en");
    }
    await ended(seen);
  }
});

test("a job is run with parameters, its output is followed, and it is killed after a question", PATIENCE, async () => {
  const page = await opened();
  await show(page, "jobs/long");
  await page.click("text=Run now");
  await page.fill("#parameter-day", "2026-11-27");
  await page.click("dialog button.main");
  await page.waitForURL(/#\/runs\/long/);
  await page.waitForSelector(".log-line:has-text('line 40')");
  assert.match(await page.textContent("#content"), /"day":"2026-11-27","mode":"delta"/);
  await page.fill("input[placeholder='Find in the output']", "line 17");
  assert.equal(await page.textContent(".log-line >> nth=0"), "line 17\n");
  await page.click("button:has-text('Kill')");
  await page.click("dialog button:has-text('Cancel')");
  assert.match(await page.textContent("h1"), /running/);
  await page.click("button:has-text('Kill')");
  await page.click("dialog button.danger");
  await page.waitForSelector("h1 .chip[data-state='killed']");
  await ended(page);
});

test("many jobs are paused together, and that is undone", PATIENCE, async () => {
  const page = await opened();
  await show(page, "jobs?label=team");
  await page.waitForSelector("text=nightly");
  await page.check("input[aria-label='Select nightly']");
  await page.check("input[aria-label='Select tick']");
  await page.click(".bulk button:has-text('Pause')");
  await page.waitForSelector(".notice:has-text('2 done.')");
  const states = async () => (await (await page.request.get(`${url}/api/v1/jobs?label=team`)).json()).jobs.map((job) => job.paused);
  assert.deepEqual(await states(), [true, true]);
  await page.click(".notice button:has-text('Undo')");
  await page.waitForSelector(".notice:has-text('Resume 2 jobs: done.')");
  assert.deepEqual(await states(), [false, false]);
  await ended(page);
});

test("a job is made with a preview, edited with a plan, and a stale edit is refused", PATIENCE, async () => {
  const page = await opened();
  await show(page, "new-job");
  await page.fill("label:has-text('Name') input", "made");
  await page.fill("label:has-text('Schedule') input", "0 5 * * mon");
  await page.fill("label:has-text('Command') input", "/bin/echo 'two words'");
  await page.waitForSelector("h2:has-text('Next fires') >> xpath=../.. >> text=Mon,");
  await page.waitForSelector(".chip:has-text('new')");
  await page.click("button:has-text('Save')");
  await page.waitForURL(/#\/jobs\/made$/);
  const made = async () => (await (await page.request.get(`${url}/api/v1/jobs/made`)).json()).job;
  assert.deepEqual([(await made()).schedule, (await made()).command], ["0 5 * * mon", ["/bin/echo", "two words"]]);
  await page.click("a:has-text('Edit')");
  await page.fill("label:has-text('Schedule') input", "0 6 * * mon");
  await page.waitForSelector("ins:has-text('0 6 * * mon')");
  cluster.run(url, ["apply", "-f", "-"], '[[job]]\nname = "made"\nschedule = "0 7 * * *"\ncommand = ["/bin/true"]\n');
  await page.click("button:has-text('Save')");
  await page.getByText("The job was changed meanwhile").waitFor();
  assert.equal((await made()).schedule, "0 7 * * *", "the other edit stays");
  await show(page, "jobs/made");
  await page.click("a:has-text('Edit')");
  await page.waitForSelector("textarea");
  await page.fill("textarea", "{ not json");
  await page.getByText("Mend the text first.").waitFor();
  page.faults = page.faults.filter((text) => !/status of (409|412)/.test(text));
  await ended(page);
});

test("the console is used by keys alone", PATIENCE, async () => {
  const page = await opened();
  await page.keyboard.press("g");
  await page.keyboard.press("n");
  await page.waitForURL(/#\/nodes$/);
  await page.keyboard.press("Control+k");
  await page.waitForSelector(".palette-input:focus");
  await page.keyboard.type("flak");
  await page.waitForSelector("[role='option']:has-text('flaky')");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/jobs\/flaky$/);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog kbd");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("Control+k");
  await page.waitForSelector(".palette-input:focus");
  await page.keyboard.type("tick");
  await page.waitForSelector("[role='option']:has-text('Pause: tick')");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".notice:has-text('Pause tick: done.')");
  await page.click(".notice button:has-text('Undo')");
  await page.waitForSelector(".notice:has-text('Resume tick: done.')");
  await ended(page);
});

test("a job is rolled back to an earlier version", PATIENCE, async () => {
  const page = await opened();
  cluster.run(url, ["apply", "-f", "-"], '[[job]]\nname = "edited"\nschedule = "0 1 * * *"\ncommand = ["/bin/true"]\n');
  cluster.run(url, ["apply", "-f", "-"], '[[job]]\nname = "edited"\nschedule = "0 2 * * *"\ncommand = ["/bin/true"]\n');
  await show(page, "jobs/edited");
  await page.waitForSelector("text=present");
  await page.click("button:has-text('Compare') >> nth=0");
  await page.waitForSelector("ins:has-text('0 2 * * *')");
  await page.click("button[aria-label='Roll back: version 1']");
  await page.click("dialog button.danger");
  await page.waitForSelector("dd code:has-text('0 1 * * *')");
  await ended(page);
});

test("what others wrote is shown as text, and what would reorder it as its number", PATIENCE, async () => {
  const page = await opened();
  await show(page, "jobs/nightly");
  await page.getByText("safe⟨U+202E⟩gpj.exe <script>alert(1)</script>").waitFor();
  await show(page, "calendars/holidays");
  await page.getByText("<img src=x onerror=alert(1)>").waitFor();
  await show(page, "jobs/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E");
  await page.locator(".failure").waitFor();
  page.faults = page.faults.filter((text) => !text.includes("status of 400"));
  await ended(page);
});

test("six pages of a browser read one stream, and one that is idle fetches little", { timeout: 150_000 }, async () => {
  const page = await opened();
  await show(page, "calendars");
  const pages = [page];
  for (let n = 0; n < 5; n += 1) {
    const more = await page.context().newPage();
    await more.goto(`${url}/#/jobs`);
    await more.waitForSelector(".list-row");
    pages.push(more);
  }
  const metrics = await (await page.request.get(`${url}/metrics`)).text();
  const streams = metrics.split("\n").filter((line) => line.startsWith("evenkeel_") && line.includes("live"));
  for (const each of pages) assert.equal(await each.textContent(".pulse"), "live", streams.join("\n"));
  await Promise.all(pages.slice(1).map((each) => each.close()));
  // Buttons work beside it: browsers open six connections to a node at most.
  await show(page, "jobs/tick");
  await page.click("button:has-text('Pause')");
  await page.waitForSelector("button:has-text('Resume')");
  await page.click("button:has-text('Resume')");
  await show(page, "calendars");
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  await page.waitForTimeout(30_000);
  assert.ok(bytes * 2 <= IDLE_MAX, `an idle page fetches ${bytes * 2} bytes a minute`);
  await ended(page);
});

test("a list of thousands of jobs is scrolled and filtered without drawing them all", PATIENCE, async () => {
  const page = await opened();
  const job = (n) => `[[job]]\nname = "many-${String(n).padStart(4, "0")}"\nenabled = false\ncommand = ["/bin/true"]\n`;
  cluster.run(url, ["apply", "-f", "-"], Array.from({ length: 2_000 }, (_, n) => job(n)).join(""));
  await show(page, "jobs?find=many-");
  await page.waitForSelector("h1:has-text('2,000 jobs')");
  assert.ok((await page.locator(".list-row").count()) < 80);
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await page.getByText("many-1999").waitFor();
  assert.ok((await page.locator(".list-row").count()) < 80);
  await page.fill("input[placeholder='Find by name']", "many-0777");
  await page.waitForSelector("h1:has-text('1 job')");
  assert.match(page.url(), /find=many-0777/);
  await ended(page);
});

test("the session ends by the button, and the page is the login then", PATIENCE, async () => {
  const page = await opened();
  await page.click("footer button:has-text('Log out')");
  await page.waitForSelector("text=Log in");
  assert.equal((await page.request.get(`${url}/api/v1/jobs`)).status(), 401);
  await ended(page);
});
