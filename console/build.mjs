// Builds the console: bundles the sources, names the files by their contents, compresses them, and writes a Rust table
// that embeds them. The same sources give the same files on every machine.

import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
/** The folder that the server embeds; another one if it is named, to compare. */
const out = path.resolve(process.argv[2] ?? path.join(here, "../crates/server/src/console/built"));

/** The first characters of a digest, which name a file. */
const digest = (bytes) => createHash("sha256").update(bytes).digest("hex").slice(0, 12);

/** Bundles one entry; returns its files by extension. */
const bundled = async (entry, define) => {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    define,
    outdir: "out",
    write: false,
  });
  return Object.fromEntries(result.outputFiles.map((file) => [path.extname(file.path).slice(1), Buffer.from(file.contents)]));
};

/** All files that the build reads, in order. `tidy` computes the same digest over them. */
const sources = async () => {
  const found = [];
  const walk = async (folder) => {
    for (const entry of await readdir(path.join(here, folder), { withFileTypes: true })) {
      const name = path.posix.join(folder, entry.name);
      if (entry.isDirectory()) await walk(name);
      else if (name !== "src/api/schema.ts") found.push(name);
    }
  };
  await walk("src");
  found.push("build.mjs", "package.json", "package-lock.json", "tsconfig.json");
  return found.sort();
};

const sourceDigest = async () => {
  const hash = createHash("sha256");
  for (const name of await sources()) {
    const bytes = await readFile(path.join(here, name));
    hash.update(`${name}\n${bytes.length}\n`).update(bytes);
  }
  return hash.digest("hex");
};

const kinds = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

const main = async () => {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const rows = [];
  const keep = async (stem, extension, bytes) => {
    const name = `${stem}-${digest(bytes)}.${extension}`;
    await writeFile(path.join(out, name), bytes);
    await writeFile(path.join(out, `${name}.gz`), gzipSync(bytes, { level: 9 }));
    rows.push({ name, kind: kinds[extension] });
    return name;
  };
  const worker = await keep("live", "js", (await bundled("src/live/worker.ts", {})).js);
  const app = await bundled("src/main.tsx", { LIVE_WORKER: JSON.stringify(worker) });
  const script = await keep("app", "js", app.js);
  const style = await keep("app", "css", app.css);
  const row = ({ name, kind }) => `    ConsoleFile {
        name: "${name}",
        kind: "${kind}",
        plain: include_bytes!("${name}"),
        gzip: include_bytes!("${name}.gz"),
    },
`;
  const table = `//! The built files of the console, as \`cargo xtask console\` writes them. Its sources are in \`console/\`.

use super::assets::ConsoleFile;

// The digest of the sources that these files were built from: ${await sourceDigest()}

/// The file with the program.
pub(super) const SCRIPT: &str = "${script}";
/// The file with the style sheet.
pub(super) const STYLE: &str = "${style}";
/// The files.
pub(super) const FILES: &[ConsoleFile] = &[
${rows.map(row).join("")}];
`;
  await writeFile(path.join(out, "mod.rs"), table);
  for (const { name } of rows) {
    const size = async (suffix) => (await readFile(path.join(out, name + suffix))).length;
    console.log(`${name}: ${await size("")} bytes, ${await size(".gz")} compressed`);
  }
};

await main();
