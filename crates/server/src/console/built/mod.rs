//! The built files of the console, as `cargo xtask console` writes them. Its sources are in `console/`.

use super::assets::ConsoleFile;

// The digest of the sources that these files were built from: c169fa05f587444bd49d05e851e4bbbdcdc954bd118c4a4d45cfb0c984dd53f2

/// The file with the program.
pub(super) const SCRIPT: &str = "app-7b0e0dd2ea54.js";
/// The file with the style sheet.
pub(super) const STYLE: &str = "app-294286af61a3.css";
/// The files.
pub(super) const FILES: &[ConsoleFile] = &[
    ConsoleFile {
        name: "live-60138f480a36.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("live-60138f480a36.js"),
        gzip: include_bytes!("live-60138f480a36.js.gz"),
    },
    ConsoleFile {
        name: "app-7b0e0dd2ea54.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("app-7b0e0dd2ea54.js"),
        gzip: include_bytes!("app-7b0e0dd2ea54.js.gz"),
    },
    ConsoleFile {
        name: "app-294286af61a3.css",
        kind: "text/css; charset=utf-8",
        plain: include_bytes!("app-294286af61a3.css"),
        gzip: include_bytes!("app-294286af61a3.css.gz"),
    },
];
