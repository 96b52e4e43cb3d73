//! From a path to the file that defines what it names.

use super::CrateModules;

/// What a path leads to.
pub(super) enum Definition {
    /// A module, by its path from the root of the crate.
    Module(Vec<String>),
    /// A type, function, constant or macro.
    Item {
        /// The file that defines it.
        file: String,
        /// Its name there.
        name: String,
    },
}

/// How many times a name may be handed on; more is a circle of `use`.
const HANDED_ON: usize = 12;

/// What `path` means in the module `from`: `None` where it leads out of the crate.
pub(super) fn resolve(modules: &CrateModules, from: &[String], path: &[String]) -> Option<Definition> {
    follow(modules, from, path, HANDED_ON)
}

/// Whether the name at the end of this path is known to stand in the module before it.
pub(super) fn declares(modules: &CrateModules, from: &[String], path: &[String]) -> bool {
    let Some((name, before)) = path.split_last() else { return false };
    match follow(modules, from, before, HANDED_ON) {
        Some(Definition::Module(at)) => look_up(modules, &at, name, true, HANDED_ON).is_some(),
        _ => false,
    }
}

fn follow(modules: &CrateModules, from: &[String], path: &[String], left: usize) -> Option<Definition> {
    let (first, rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Definition::Module(Vec::new()),
        "self" => Definition::Module(from.to_vec()),
        "super" => Definition::Module(from.split_last()?.1.to_vec()),
        name => look_up(modules, from, name, rest.is_empty(), left)?,
    };
    for (number, name) in rest.iter().enumerate() {
        let Definition::Module(module) = at else { break };
        let last = number + 1 == rest.len();
        at = if name == "super" {
            Definition::Module(module.split_last()?.1.to_vec())
        } else {
            let known = look_up(modules, &module, name, last, left);
            // What a macro makes has no declaration to find.
            let made =
                || Some(Definition::Item { file: modules.get(&module)?.file.clone(), name: name.clone() });
            known.or_else(made)?
        };
    }
    Some(at)
}

/// What `name` is in the module `at`. The last name of a path is rather an item than a module.
fn look_up(modules: &CrateModules, at: &[String], name: &str, last: bool, left: usize) -> Option<Definition> {
    let left = left.checked_sub(1)?;
    let module = modules.get(at)?;
    let below: Vec<String> = at.iter().cloned().chain([name.to_owned()]).collect();
    let child = modules.contains_key(&below);
    if module.items.contains(name) && (last || !child) {
        return Some(Definition::Item { file: module.file.clone(), name: name.to_owned() });
    }
    let imports = module.uses.iter().filter(|import| import.name == name && import.path.len() > 1);
    let mut imported = imports.filter_map(|import| follow(modules, at, &import.path, left));
    if child && !last {
        return Some(Definition::Module(below));
    }
    if let Some(found) = imported.next() {
        return Some(found);
    }
    if child {
        return Some(Definition::Module(below));
    }
    module.globs.iter().find_map(|glob| match follow(modules, at, glob, left)? {
        Definition::Module(from) if from != at => look_up(modules, &from, name, last, left),
        _ => None,
    })
}
