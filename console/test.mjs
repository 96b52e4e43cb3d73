// Runs the unit tests: bundles them, and hands them to Node's runner.

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = await mkdtemp(path.join(os.tmpdir(), "evenkeel-console-"));
try {
  const names = (await readdir(path.join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: names.map((name) => path.join(here, "test", name)),
    bundle: true,
    format: "esm",
    platform: "node",
    target: ["node20"],
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    logLevel: "warning",
  });
  const files = (await readdir(folder)).map((name) => path.join(folder, name));
  const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  await rm(folder, { recursive: true });
}
