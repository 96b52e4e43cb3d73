// A job as a TOML file, as `evenkeel job show` prints it.

type Value = string | number | boolean | Value[] | { [key: string]: Value };

const quoted = (text: string): string =>
  `"${text.replace(/[\\"\u0000-\u001f\u007f]/g, (c) => {
    const short: Record<string, string> = { "\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r" };
    return short[c] ?? `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  })}"`;
const key = (name: string): string => (/^[A-Za-z0-9_-]+$/.test(name) ? name : quoted(name));

const value = (of: Value): string => {
  if (typeof of === "string") return quoted(of);
  if (typeof of !== "object") return String(of);
  if (Array.isArray(of)) return `[${of.map(value).join(", ")}]`;
  return `{ ${Object.entries(of).map(([name, inner]) => `${key(name)} = ${value(inner)}`).join(", ")} }`;
};

/** The job file. */
export const tomlOf = (job: object): string =>
  `[[job]]\n${Object.entries(job)
    .filter(([, of]) => of !== null && of !== undefined)
    .map(([name, of]) => `${key(name)} = ${value(of as Value)}\n`)
    .join("")}`;

/** A word of a shell. */
export const shellWord = (text: string): string => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
