//! Each wall is seen to bite: a violation is planted in a copy of the house, and the wall says what to do about it.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail as the test may")]

#[path = "walls/imports.rs"]
mod imports;
#[path = "walls/interfaces.rs"]
mod interfaces;

use std::path::PathBuf;
use tempfile::TempDir;
use xtask::tidy::{self, CHECKS};
use xtask::tree::{self, SourceTree};

/// Rust files in which violations are planted, or of which the rules speak; beside those that list the modules of a crate.
const COPIED: [&str; 5] = [
    "crates/core/src/local",
    "crates/core/src/rule_context.rs",
    "crates/server/src/api.rs",
    "crates/server/src/api/shards.rs",
    "crates/server/src/console/built/mod.rs",
];

/// Parsing all Rust files takes seconds, and a wall is seen to bite in a few.
fn is_copied(path: &str) -> bool {
    let lists_modules = ["/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(name));
    !path.ends_with(".rs") || lists_modules || COPIED.iter().any(|start| path.starts_with(start))
}

/// A copy of the house without most of its Rust files, in a folder of its own.
struct TreeCopy(TempDir);

impl TreeCopy {
    fn copy() -> Self {
        let house = Self(TempDir::new().unwrap());
        for path in tree::paths(&xtask::root()).unwrap().into_iter().filter(|path| is_copied(path)) {
            let to = house.at(&path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(xtask::root().join(&path), to).unwrap();
        }
        house
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), text).unwrap();
    }

    fn edit(&self, path: &str, change: impl Fn(&str) -> String) {
        let old = std::fs::read_to_string(self.at(path)).unwrap();
        let new = change(&old);
        assert_ne!(old, new, "the plant did not change {path}");
        self.write(path, &new);
    }

    fn violations(&self, wall: &str) -> Vec<String> {
        let tree = SourceTree::read(self.0.path()).unwrap();
        tidy::run_check(&tree, wall).iter().map(ToString::to_string).collect()
    }

    fn reports_nothing(&self, wall: &str, about: &str) {
        let said = self.violations(wall);
        assert!(!said.iter().any(|said| said.contains(about)), "{wall} says {said:#?}");
    }

    fn reports(&self, wall: &str, expected: &str) {
        let said = self.violations(wall);
        assert!(
            said.iter().any(|said| said.contains(expected)),
            "{wall} should say {expected:?}, and says {said:#?}"
        );
    }
}

/// The house as it is does not have `expected` said about it, and with the violation it does.
fn check_catches(wall: &str, expected: &str, plant: impl Fn(&TreeCopy)) {
    let house = TreeCopy::copy();
    house.reports_nothing(wall, expected);
    plant(&house);
    house.reports(wall, expected);
}

/// The same for several violations, one after another in one house.
fn each_check_catches(wall: &str, expected: &str, planted: &[&str], plant: impl Fn(&TreeCopy, &str)) {
    let house = TreeCopy::copy();
    house.reports_nothing(wall, expected);
    for one in planted {
        plant(&house, one);
        house.reports(wall, expected);
    }
}

#[test]
fn keys_spelt_elsewhere() {
    let planted = [
        "format!(\"job/{job}/assignment\")",
        "const A: &str = \"run/\"",
        "Key::from_stored(\"x\")",
        "r = \"cluster\"",
    ];
    each_check_catches("keys", "crates/registry/src/planted.rs:2: the key", &planted, |house, line| {
        house.write("crates/registry/src/planted.rs", &format!("//! A planted file.\n{line};\n"));
    });
}

#[test]
fn keys_in_sentences_and_tests_are_fine() {
    let house = TreeCopy::copy();
    let lines = "// \"job/a/spec\"\nlet a = \"node/ holds members\";\nlet b = \"/job/a\";\n#[cfg(test)]\nmod tests {\n    const A: &str = \"job/a\";\n}\n";
    house.write("crates/registry/src/planted.rs", &format!("//! A planted file.\n{lines}"));
    house.reports_nothing("keys", "planted");
}

#[test]
fn sentence_at_the_top() {
    let planted = [
        "fn a() {}\n",
        "//! Planted.\n",
        "//! A planted file without an end\n\nfn a() {}\n",
        "// A planted file.\n",
    ];
    each_check_catches(
        "sentence",
        "crates/core/src/planted.rs:1: begin with a `//!` sentence",
        &planted,
        |house, text| {
            house.write("crates/core/src/planted.rs", text);
        },
    );
}

#[test]
fn long_files() {
    let product = |lines: usize| {
        let text = "const A: u8 = 1; // counted\n\n// not counted\n".repeat(lines);
        format!("//! A planted file.\n{text}")
    };
    let with_tests = |lines: usize| {
        let tests = "    const B: u8 = 1;\n".repeat(lines);
        format!("//! A planted file.\n#[cfg(test)]\nmod tests {{\n{tests}}}\n")
    };
    for (path, text) in [
        ("crates/node/src/planted.rs", product(401)),
        ("crates/node/src/planted.rs", with_tests(398)),
        ("crates/node/tests/planted.rs", product(401)),
    ] {
        let expected = format!("{path}: 401 source lines, and 400 is the limit");
        check_catches("long files", &expected, |house| house.write(path, &text));
    }
    let house = TreeCopy::copy();
    house.write("crates/node/src/planted.rs", &product(400));
    house.write("crates/node/tests/planted.rs", &with_tests(397));
    house.reports_nothing("long files", "planted");
}

#[test]
fn long_functions() {
    let planted = |lines: usize| {
        let body = "    a(\"}\");\n\n    // }\n".repeat(lines - 2);
        format!("//! A planted file.\nfn short() {{}}\nfn long() {{\n{body}}}\n")
    };
    check_catches(
        "long functions",
        "crates/node/src/planted.rs:3: `long` has 71 source lines, and 70 is the limit",
        |house| {
            house.write("crates/node/src/planted.rs", &planted(71));
        },
    );
    let house = TreeCopy::copy();
    house.write("crates/node/src/planted.rs", &planted(70));
    house.reports_nothing("long functions", "planted");
}

#[test]
fn rules_without_page_or_scenario() {
    let text = "//! A planted rule.\npub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {}\n";
    let rule = |house: &TreeCopy| house.write("crates/core/src/cluster/planted.rs", text);
    check_catches(
        "rules",
        "crates/core/src/cluster/planted.rs: this rule has no page: write docs/concepts/planted.md",
        rule,
    );
    check_catches(
        "rules",
        "crates/core/src/cluster/planted.rs: no scenario plays this rule: add `# rule: planted`",
        rule,
    );
    let house = TreeCopy::copy();
    rule(&house);
    house.write("docs/concepts/planted.md", "# Planted\n");
    house.write("crates/sim/scenarios/planted.txt", "# rule: planted\n");
    house.reports_nothing("rules", "planted");
}

#[test]
fn proofs_that_are_missing() {
    check_catches("proofs", "I99 is marked tested and no test cites it", |house| {
        house.edit("docs/invariants.md", |text| format!("{text}| I99 | planted | tested |\n"));
    });
    check_catches("proofs", "I99 has the state `perhaps`", |house| {
        house.edit("docs/invariants.md", |text| format!("{text}| I99 | planted | perhaps |\n"));
    });
    let advice = |kind: &str| format!("| I97 | {kind} | planted | said in README.md: planted words |\n");
    check_catches("proofs", "README.md does not say `planted words`", |house| {
        house.edit("docs/requirements.md", |text| text.to_owned() + &advice("adv"));
    });
    check_catches("proofs", "I97 has the state `said in README.md: planted words`", |house| {
        house.edit("docs/requirements.md", |text| text.to_owned() + &advice("req"));
    });
}

#[test]
fn proofs_of_nothing() {
    let planted = |marks: &str| format!("//! A planted test.\n/// proves: I98\n{marks}fn planted() {{}}\n");
    check_catches("proofs", "crates/node/tests/planted.rs:2: I98 is cited and listed nowhere", |house| {
        house.write("crates/node/tests/planted.rs", &planted("#[tokio::test(start_paused = true)]\n"));
    });
    check_catches("proofs", "crates/node/tests/planted.rs:2: `proves:` stands above no test", |house| {
        house.write("crates/node/tests/planted.rs", &planted(""));
    });
    check_catches("proofs", "`all` is no requirement id", |house| {
        house.write("crates/sim/scenarios/planted.txt", "# proves: all\n");
    });
}

#[test]
fn proofs_that_count() {
    let house = TreeCopy::copy();
    house.edit("docs/invariants.md", |text| {
        format!("{text}| I98 | planted | tested |\n| I99 | planted | tested |\n")
    });
    let text = "//! A planted test.\n/// Says more.\n/// proves: I98\n#[test]\nfn planted() {}\n";
    house.write("crates/node/tests/planted.rs", text);
    house.write("crates/sim/scenarios/planted.txt", "# proves: I99\n");
    house.reports_nothing("proofs", "I98");
    house.reports_nothing("proofs", "I99");
    // Tests with a main of their own name their functions in a list.
    house.write(
        "crates/node/tests/planted/more.rs",
        "//! A planted test.\n/// proves: I98\npub fn listed() {}\n",
    );
    house.reports("proofs", "stands above no test");
    house.write(
        "crates/node/tests/planted/main.rs",
        "//! A planted test.\nmod more;\nfn main() {\n    more::listed();\n}\n",
    );
    house.reports_nothing("proofs", "stands above no test");
}

#[test]
fn mentions_of_what_is_not_required() {
    let unknown = format!("S1-{}", 96);
    check_catches(
        "mentions",
        &format!("crates/node/src/planted.rs:2: there is no requirement {unknown}"),
        |house| {
            house.write(
                "crates/node/src/planted.rs",
                &format!("//! A planted file.\n// see {unknown} and S1-95\n"),
            );
        },
    );
}

#[test]
fn dead_code() {
    check_catches("dead code", "crates/node/src/planted/deep.rs: no `mod` leads here", |house| {
        house.write("crates/node/src/planted/deep.rs", "//! A planted file.\n");
    });
    let house = TreeCopy::copy();
    house.write("crates/node/src/planted/deep.rs", "//! A planted file.\n");
    house.write("crates/node/src/planted.rs", "//! A planted file.\nmod deep;\n");
    house.edit("crates/node/src/lib.rs", |text| format!("{text}\nmod planted;\n"));
    house.reports_nothing("dead code", "planted");
    house.write(
        "crates/node/src/planted.rs",
        "//! A planted file.\n#[path = \"planted/deep.rs\"]\nmod other;\n",
    );
    house.reports_nothing("dead code", "planted");
}

#[test]
fn dead_pages() {
    check_catches("dead pages", "docs/planted.md: no other page links here", |house| {
        house.write("docs/planted.md", "# Planted\n\n[itself](planted.md)\n");
    });
}

#[test]
fn links_that_lead_nowhere() {
    check_catches(
        "links",
        "docs/planted.md:1: the link to `gone.md` leads nowhere: there is no docs/gone.md",
        |house| {
            house.write("docs/planted.md", "see [this](gone.md)\n");
        },
    );
    check_catches("links", "docs/planted.md:1: the link to `requirements.md#gone` leads nowhere", |house| {
        house.write(
            "docs/planted.md",
            "see [this](requirements.md#gone), [that](requirements.md#requirements)\n",
        );
    });
}

#[test]
fn words_that_do_not_belong() {
    for line in
        ["// TODO: more", "see /work/shared/notes", "as in ../shared/spec", "this page is AI-generated."]
    {
        check_catches("words", "docs/planted.md:2: `", |house| {
            house.write("docs/planted.md", &format!("# Planted\n{line}\n"));
        });
    }
}

#[test]
fn types_of_one_name() {
    let planted = [
        "pub struct RuleContext;",
        "    enum RuleContext {}",
        "pub(crate) trait RuleContext {}",
        "type RuleContext = u8;",
    ];
    let expected = "crates/node/src/planted.rs:2: `RuleContext` is also a type in crates/core/src/";
    each_check_catches("type names", expected, &planted, |house, line| {
        house.write("crates/node/src/planted.rs", &format!("//! A planted file.\n{line}\n"));
    });
    let fine = "//! A planted file, not struct RuleContext.\nimpl A for B {\n    type RuleContext = u8;\n}\n";
    let house = TreeCopy::copy();
    house.write("crates/node/src/planted.rs", fine);
    house.reports_nothing("type names", "planted.rs");
}

#[test]
fn names_that_were_given_up() {
    let expected = "crates/sim/src/planted.rs:2: `Desk` was given up for what it does";
    let planted = ["struct Desk;", "fn sit(at: Desk) {}", "use core::Desk as Table;"];
    each_check_catches("retired names", expected, &planted, |house, line| {
        house.write("crates/sim/src/planted.rs", &format!("//! A planted file.\n{line}\n"));
    });
    let house = TreeCopy::copy();
    house.write("crates/sim/src/planted.rs", "//! A planted Desk.\nconst A: &str = \"Desk\"; // Desk\n");
    house.reports_nothing("retired names", "planted.rs");
}

#[test]
fn changelog_without_a_place_for_what_is_new() {
    let house = TreeCopy::copy();
    house.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n");
    house.reports_nothing("changelog", "Unreleased");
    house.write("CHANGELOG.md", "# Changes\n\n## 0.1.0\n");
    house.reports("changelog", "CHANGELOG.md: add a heading `## Unreleased`");
}

#[test]
fn built_files_of_the_console_that_are_not_of_its_sources() {
    check_catches(
        "console",
        "crates/server/src/console/built/mod.rs: these files are of other sources: run `cargo xtask console`",
        |house| {
            house.edit("console/src/i18n/en.ts", |text| text.replace("Overview", "Planted"));
        },
    );
}

#[test]
fn slow_tests_that_run_unasked() {
    check_catches(
        "slow tests",
        "crates/server/Cargo.toml: say `test = false` in a [[test]] section named chaos",
        |house| {
            house.write("crates/server/tests/chaos/main.rs", "//! A planted test.\n");
            house.edit("crates/server/Cargo.toml", |text| {
                text.replace("[lints]", "# planted\n[lints]").replace("test = false", "")
            });
        },
    );
}

#[test]
fn figures_other_than_the_sources() {
    check_catches(
        "figures",
        "seed-001-three-nodes-crash.txt does not show what S1-80 says: A={K=19 S=2 N=20 X=13 M=10}",
        |house| {
            house.edit("crates/sim/scenarios/seed-001-three-nodes-crash.txt", |text| {
                text.replace("X=13", "X=9")
            });
        },
    );
}

#[test]
fn ignored_tests_that_do_not_name_the_soak() {
    let ignored = |reason: &str| format!("//! A planted test.\n#[test]\n#[ignore{reason}]\nfn slow() {{}}\n");
    for reason in ["", " = \"takes long\""] {
        check_catches(
            "slow tests",
            "crates/node/tests/planted.rs:3: say why only the soak runs this test",
            |house| {
                house.write("crates/node/tests/planted.rs", &ignored(reason));
            },
        );
    }
    let house = TreeCopy::copy();
    house.write("crates/node/tests/planted.rs", &ignored(" = \"soak: takes long\""));
    house.reports_nothing("slow tests", "planted.rs");
}

#[test]
fn every_wall_has_its_test() {
    let here = concat!(
        include_str!("walls.rs"),
        include_str!("walls/imports.rs"),
        include_str!("walls/interfaces.rs")
    );
    let calls: Vec<_> =
        here.split("check_catches(").chain(here.split(".reports(")).map(str::trim_start).collect();
    for wall in CHECKS {
        let name = format!("\"{}\",", wall.name);
        assert!(calls.iter().any(|call| call.starts_with(&name)), "plant something for {}", wall.name);
    }
}
