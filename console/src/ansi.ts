// Output with the colours of a terminal (SGR); every other control sequence is left out.

/** A piece of a line in one style. */
export interface Piece {
  text: string;
  /** Style classes, as `fg1 bold`. */
  style: string;
}

/** Which style the next piece has. */
export interface Style {
  colour: number | undefined;
  bold: boolean;
  faint: boolean;
  underline: boolean;
}

export const plain: Style = { colour: undefined, bold: false, faint: false, underline: false };

const CONTROL = /\u001b\[([0-9;:]*)([A-Za-z])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_]/g;

const changed = (style: Style, codes: number[]): Style => {
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) next = plain;
    else if (code === 1) next = { ...next, bold: true };
    else if (code === 2) next = { ...next, faint: true };
    else if (code === 4) next = { ...next, underline: true };
    else if (code === 22) next = { ...next, bold: false, faint: false };
    else if (code === 24) next = { ...next, underline: false };
    else if (code >= 30 && code <= 37) next = { ...next, colour: code - 30 };
    else if (code >= 90 && code <= 97) next = { ...next, colour: code - 82 };
    else if (code === 39) next = { ...next, colour: undefined };
    // A colour of 256, or of red, green and blue: its numbers are no codes.
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : codes[at + 1] === 2 ? 4 : 0;
  }
  return next;
};

const classes = ({ colour, bold, faint, underline }: Style): string =>
  [colour === undefined ? "" : `fg${colour}`, bold ? "bold" : "", faint ? "faint" : "", underline ? "underline" : ""]
    .filter(Boolean)
    .join(" ");

/** The pieces of a line, and the style that the next line begins with. */
export const piecesOf = (line: string, style: Style): { pieces: Piece[]; style: Style } => {
  if (!line.includes("\u001b")) return { pieces: [{ text: line, style: classes(style) }], style };
  const pieces: Piece[] = [];
  let from = 0;
  let present = style;
  for (const found of line.matchAll(CONTROL)) {
    if (found.index > from) pieces.push({ text: line.slice(from, found.index), style: classes(present) });
    from = found.index + found[0].length;
    if (found[2] === "m") present = changed(present, (found[1] ?? "").split(/[;:]/).map(Number));
  }
  if (from < line.length) pieces.push({ text: line.slice(from), style: classes(present) });
  return { pieces, style: present };
};
