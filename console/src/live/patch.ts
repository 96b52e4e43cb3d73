// JSON Merge Patch (RFC 7396).

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const isObject = (value: unknown): value is { [key: string]: Json } =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The document after a patch. Parts that the patch leaves alone are the same objects as before. */
export const patched = (target: Json | undefined, patch: Json): Json => {
  if (!isObject(patch)) return patch;
  // Objects without a prototype have no key but their own.
  const made: { [key: string]: Json } = Object.assign(Object.create(null), isObject(target) ? target : {});
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete made[key];
    else made[key] = patched(made[key], value);
  }
  return made;
};
