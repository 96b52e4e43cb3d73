//! The built files of the console, as `cargo xtask console` writes them. Its sources are in `console/`.

use super::assets::ConsoleFile;

// The digest of the sources that these files were built from: ad526c7158cef267798ecd1ce80bde1039b05e8b2c847196addf8a13435d49aa

/// The file with the program.
pub(super) const SCRIPT: &str = "app-d0f76d7272ec.js";
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
        name: "app-d0f76d7272ec.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("app-d0f76d7272ec.js"),
        gzip: include_bytes!("app-d0f76d7272ec.js.gz"),
    },
    ConsoleFile {
        name: "app-f56779691256.css",
        kind: "text/css; charset=utf-8",
        plain: include_bytes!("app-f56779691256.css"),
        gzip: include_bytes!("app-f56779691256.css.gz"),
    },
];
