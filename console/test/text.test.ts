import assert from "node:assert/strict";
import { test } from "node:test";

import { piecesOf, plain } from "../src/ansi";
import { patched } from "../src/live/patch";
import { harmless } from "../src/text";
import { shellWord, tomlOf } from "../src/toml";

test("characters that reorder or hide text are shown as their numbers", () => {
  assert.equal(harmless("safe\u202egpj.exe"), "safe⟨U+202E⟩gpj.exe");
  assert.equal(harmless("a\u200bb\u0000c\u{e0041}d"), "a⟨U+200B⟩b⟨U+0000⟩c⟨U+E0041⟩d");
  assert.equal(harmless("<b>日本\tläuft</b>"), "<b>日本\tläuft</b>");
});

test("colours of a terminal are styles, and every other sequence is left out", () => {
  const { pieces, style } = piecesOf("a\u001b[1;31mred\u001b[0m \u001b[2Kend\u001b]0;title\u0007", plain);
  assert.deepEqual(pieces, [
    { text: "a", style: "" }, { text: "red", style: "fg1 bold" }, { text: " ", style: "" }, { text: "end", style: "" },
  ]);
  assert.deepEqual(style, plain);
  assert.deepEqual(piecesOf("\u001b[38;5;196;1mx", plain).pieces, [{ text: "x", style: "bold" }]);
  assert.equal(piecesOf("\u001b[32m", plain).style.colour, 2, "a style goes on in the next line");
});

test("a merge patch removes by null, and has no keys but its own", () => {
  assert.deepEqual({ ...(patched({ a: 1, b: { c: 2, d: 3 } }, { b: { c: null, e: [1] } }) as object) }, { a: 1, b: Object.assign(Object.create(null), { d: 3, e: [1] }) });
  const hostile = patched({}, JSON.parse('{"__proto__": {"polluted": true}}'));
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  assert.deepEqual(Object.keys(hostile as object), ["__proto__"]);
});

test("a job is written as TOML that needs no other file", () => {
  const job = { name: "a", command: ["/bin/echo", 'say "hi"\n'], retry: { max_retries: 3 }, labels: { "x.y": "1" }, paused: undefined };
  assert.equal(
    tomlOf(job),
    '[[job]]\nname = "a"\ncommand = ["/bin/echo", "say \\"hi\\"\\n"]\nretry = { max_retries = 3 }\nlabels = { "x.y" = "1" }\n',
  );
  assert.equal(shellWord("it's"), "'it'\\''s'");
  assert.equal(shellWord("team/nightly-1"), "team/nightly-1");
});
