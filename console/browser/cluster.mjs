// Nodes of a cluster on loopback for the tests in the browser.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";

const PATIENCE_MS = 60_000;

/** The jobs that the screens show: every placement and every state, and text that is hostile. */
export const JOBS = String.raw`
[[calendar]]
name = "holidays"
days = ["12-25", "12-26"]
description = "<img src=x onerror=alert(1)>"

[[job]]
name = "nightly"
description = "safe\u202Egpj.exe <script>alert(1)</script>"
schedule = "0 3 * * *"
timezone = "Europe/Berlin"
exclude_calendars = ["holidays"]
labels = { team = "storage" }
command = ["/bin/true"]

[[job]]
name = "tick"
schedule = "@every 5s"
labels = { team = "web" }
command = ["/bin/sh", "-c", "printf '\\033[32mok\\033[0m <b>bold</b>\\n'"]

[[job]]
name = "flaky"
schedule = "@every 10s"
command = ["/bin/sh", "-c", "echo starting; echo 'ERROR: refused' >&2; exit 3"]

[[job]]
name = "split"
placement = "sharded"
shards = 4
schedule = "@every 10s"
command = ["/bin/true"]

[[job]]
name = "long"
placement = "dispatched"
command = ["/bin/sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); sleep 0.05; done"]
[job.parameters]
day = { type = "date", description = "The day" }
mode = { type = "string", allowed = ["full", "delta"], default = "delta" }

[[job]]
name = "off"
schedule = "0 * * * *"
enabled = false
command = ["/bin/true"]

[[job]]
name = "nowhere"
schedule = "0 * * * *"
node_selector = ["gpu"]
command = ["/bin/true"]
`;

/** A cluster of nodes with one registry file. */
export class Cluster {
  nodes = new Map();

  constructor(program) {
    this.program = program;
    this.folder = mkdtempSync(path.join(os.tmpdir(), "evenkeel-browser-"));
    this.env = { PATH: "/usr/bin:/bin", TZ: "UTC", XDG_STATE_HOME: path.join(this.folder, "state"), EVENKEEL_COMMAND_USERS: "any", EVENKEEL_LOG: "error" };
  }

  /** Starts a node; returns its address. */
  async start(name) {
    const args = ["serve", "--name", name, "--data", path.join(this.folder, name), "--registry", `sqlite:${path.join(this.folder, "registry.db")}`, "--port", "0"];
    const child = spawn(this.program, args, { env: this.env, stdio: ["ignore", "pipe", "inherit"] });
    const url = await new Promise((resolve, reject) => {
      let said = "";
      const late = setTimeout(() => reject(new Error(`node ${name} does not say where it answers: ${said}`)), PATIENCE_MS);
      child.stdout.on("data", (text) => {
        said += text;
        const found = said.match(/https?:\/\/[0-9.:]+/);
        if (found) {
          clearTimeout(late);
          resolve(found[0]);
        }
      });
    });
    this.nodes.set(name, { child, url });
    return url;
  }

  /** Runs a command of the program against a node. */
  run(url, args, input = "") {
    return execFileSync(this.program, args, { env: { ...this.env, EVENKEEL_SERVER: url }, input, encoding: "utf8" });
  }

  /** A link that logs the browser in. */
  loginLink(url) {
    return this.run(url, ["console"]).match(/https?:\S+/)[0];
  }

  kill(name) {
    this.nodes.get(name).child.kill("SIGKILL");
  }

  end() {
    // A node that is killed leaves a guard, which ends its runs and then itself.
    for (const { child } of this.nodes.values()) child.kill("SIGTERM");
    setTimeout(() => {
      for (const { child } of this.nodes.values()) child.kill("SIGKILL");
      rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    }, 2_000);
  }
}
