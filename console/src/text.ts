// Text of others, shown harmlessly.

/** Characters that reorder, hide or fake text: controls, bidirectional marks, zero-width and tag characters. */
const TRICKS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** The text, in which such characters stand as their numbers. */
export const harmless = (text: string): string =>
  text.replace(TRICKS, (found) => `⟨U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
