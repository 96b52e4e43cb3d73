//! The built files of the console, as `cargo xtask console` writes them. Its sources are in `console/`.

use super::assets::ConsoleFile;

// The digest of the sources that these files were built from: fcdd7b3bd7e05414ec79caccf3ca561ceddd35688e36e894887d44dc0e4923fa

/// The file with the program.
pub(super) const SCRIPT: &str = "app-a9a5b0ee1422.js";
/// The file with the style sheet.
pub(super) const STYLE: &str = "app-f56779691256.css";
/// The files.
pub(super) const FILES: &[ConsoleFile] = &[
    ConsoleFile {
        name: "live-60138f480a36.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("live-60138f480a36.js"),
        gzip: include_bytes!("live-60138f480a36.js.gz"),
    },
    ConsoleFile {
        name: "app-a9a5b0ee1422.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("app-a9a5b0ee1422.js"),
        gzip: include_bytes!("app-a9a5b0ee1422.js.gz"),
    },
    ConsoleFile {
        name: "app-f56779691256.css",
        kind: "text/css; charset=utf-8",
        plain: include_bytes!("app-f56779691256.css"),
        gzip: include_bytes!("app-f56779691256.css.gz"),
    },
];
