//! Walls between crates and files, and around what core may use.

use super::*;

fn dependency(name: &'static str) -> impl Fn(&str) -> String {
    move |manifest| manifest.replace("[dependencies]", &format!("[dependencies]\n{name}"))
}

#[test]
fn edges_between_crates_of_the_house() {
    let expected = "crates/server/Cargo.toml: server may not depend on evenkeel-registry";
    check_catches("edges", expected, |house| {
        house.edit("crates/server/Cargo.toml", dependency("evenkeel-registry.workspace = true"));
    });
}

#[test]
fn edges_to_crates_of_others() {
    check_catches("edges", "core may not depend on tokio, only on serde, serde_json, jiff", |house| {
        house.edit("crates/core/Cargo.toml", dependency("tokio.workspace = true"));
    });
    check_catches("edges", "sim may not depend on tokio", |house| {
        house.edit("crates/sim/Cargo.toml", dependency("renamed = { package = \"tokio\", version = \"1\" }"));
    });
    check_catches("edges", "core may not depend on rustix", |house| {
        let on_unix = "\n[target.'cfg(unix)'.dependencies]\nrustix.workspace = true\n";
        house.edit("crates/core/Cargo.toml", |manifest| format!("{manifest}{on_unix}"));
    });
}

#[test]
fn edges_of_a_crate_nobody_knows() {
    check_catches("edges", "crates/util/Cargo.toml: a new crate: say in", |house| {
        house.write("crates/util/Cargo.toml", "[package]\nname = \"util\"\n");
    });
}

#[test]
fn circles_of_imports() {
    let plant = |house: &TreeCopy, files: &[(&str, &str)]| {
        let names = files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";\nmod ");
        house.write("crates/sim/src/planted.rs", &format!("//! A planted file.\nmod {names};\n"));
        for (name, taken) in files {
            let text = format!("//! A planted file.\nuse {taken};\npub struct {};\n", name.to_uppercase());
            house.write(&format!("crates/sim/src/planted/{name}.rs"), &text);
        }
    };
    let house = TreeCopy::copy();
    house.edit("crates/sim/src/lib.rs", |text| format!("{text}\nmod planted;\n"));
    plant(&house, &[("a", "super::b::B"), ("b", "super::a::A"), ("c", "super::a::A")]);
    house.reports_nothing("circles", "planted");
    plant(&house, &[("a", "super::b::B"), ("b", "crate::planted::c::{C, self as it}"), ("c", "super::a::A")]);
    house.reports("circles", "crates/sim/src/planted/a.rs: 3 files import each other in a circle: move");
    house.reports("circles", "\n  crates/sim/src/planted/b.rs imports from crates/sim/src/planted/c.rs: C\n");
}

#[test]
fn std_in_core() {
    check_catches("std", "crates/core/src/planted.rs:2: core may not use std", |house| {
        house.write("crates/core/src/planted.rs", "//! A planted file.\nuse std::time::Duration;\n");
    });
    check_catches("std", "core must say `#![no_std]`", |house| {
        house.edit("crates/core/src/lib.rs", |text| text.replace("#![no_std]", "// #![no_std]"));
    });
}

#[test]
fn std_in_tests_of_core_is_fine() {
    let house = TreeCopy::copy();
    let text = "//! A planted file, without std.\n#[cfg(test)]\nextern crate std;\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    house.write("crates/core/src/planted.rs", text);
    house.reports_nothing("std", "planted");
}

#[test]
fn unsafe_code() {
    check_catches("unsafe", "Cargo.toml: say `unsafe_code = \"forbid\"`", |house| {
        house.edit("Cargo.toml", |text| text.replace("unsafe_code = \"forbid\"", "unsafe_code = \"deny\""));
    });
    check_catches("unsafe", "crates/node/Cargo.toml: say `workspace = true` under [lints]", |house| {
        house.edit("crates/node/Cargo.toml", |text| text.replace("[lints]\nworkspace = true", ""));
    });
}

#[test]
fn lock_that_drifted() {
    check_catches("lock", "Cargo.lock: does not fit the manifests: run `cargo check`", |house| {
        house.edit("Cargo.toml", |text| text.replace("version = \"0.1.0\"", "version = \"0.1.99\""));
    });
}

#[test]
fn clocks_read_in_the_wrong_place() {
    let planted = [
        "std::time::Instant::now()",
        "SystemTime::now()",
        "jiff::Timestamp::now()",
        "clock_gettime(ClockId::Boottime)",
    ];
    each_check_catches("clocks", "crates/server/src/planted.rs:3: `", &planted, |house, read| {
        let text =
            format!("//! A planted file, not Instant::now.\nfn read() {{\n    let now = {read};\n}}\n");
        house.write("crates/server/src/planted.rs", &text);
    });
}

#[test]
fn clocks_in_tests_say_why() {
    let text = "//! A planted test.\n#[test]\nfn read() {\n    let now = Instant::now();\n}\n";
    check_catches("clocks", "crates/node/tests/planted.rs:4: `Instant::now` needs #[expect", |house| {
        house.write("crates/node/tests/planted.rs", text);
    });
    let house = TreeCopy::copy();
    for form in [
        "[expect(clippy::disallowed_methods, reason = \"a test\")]",
        "[expect(\n    clippy::disallowed_methods,\n    reason = \"a test\"\n)]",
    ] {
        house.write("crates/node/tests/planted.rs", &text.replace("fn read", &format!("#{form}\nfn read")));
        house.reports_nothing("clocks", "planted");
    }
    house.write(
        "crates/node/tests/planted.rs",
        &text.replace("#[test]", "#![expect(clippy::disallowed_methods, reason = \"tests\")]\n\n#[test]"),
    );
    house.reports_nothing("clocks", "planted");
}

#[test]
fn order_of_hashes() {
    check_catches(
        "order",
        "crates/core/src/planted.rs:2: `HashMap` has no order of its own: use BTreeMap",
        |house| {
            house.write(
                "crates/core/src/planted.rs",
                "//! Planted, and no HashSet.\nuse hashbrown::HashMap;\n",
            );
        },
    );
    check_catches("order", "crates/sim/src/planted.rs:2: `HashSet`", |house| {
        house.write("crates/sim/src/planted.rs", "//! A planted file.\nuse std::collections::HashSet;\n");
    });
}
