//! The built files of the console, as `cargo xtask console` writes them. Its sources are in `console/`.

use super::assets::ConsoleFile;

// The digest of the sources that these files were built from: 43209f9fb39de4fc484821aeca163d9326bda444827dda67f09b8a127fcebc12

/// The file with the program.
pub(super) const SCRIPT: &str = "app-107656149598.js";
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
        name: "app-107656149598.js",
        kind: "text/javascript; charset=utf-8",
        plain: include_bytes!("app-107656149598.js"),
        gzip: include_bytes!("app-107656149598.js.gz"),
    },
    ConsoleFile {
        name: "app-294286af61a3.css",
        kind: "text/css; charset=utf-8",
        plain: include_bytes!("app-294286af61a3.css"),
        gzip: include_bytes!("app-294286af61a3.css.gz"),
    },
];
