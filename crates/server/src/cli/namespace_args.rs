//! The flags by which the command line names a namespace.

use clap::Args;
use evenkeel_core::ids::{
    CalendarName, DEFAULT_NAMESPACE, JobName, Namespace, Namespaced, SecretName, WrittenName,
};

/// The namespace of what is named without one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NamespaceArgs {
    /// The namespace of names that are written without one, unlike team-a/nightly; `default` if no other one is given
    #[arg(short, long, value_name = "NAMESPACE", env = "EVENKEEL_NAMESPACE")]
    pub(crate) namespace: Option<Namespace>,
}

/// The namespace of a list.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ListedNamespaceArgs {
    #[command(flatten)]
    pub(crate) one: NamespaceArgs,
    /// Everything in all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

impl NamespaceArgs {
    /// The namespace, if the command line or the environment names one.
    pub(crate) fn get(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    fn name(&self) -> &str {
        self.get().map_or(DEFAULT_NAMESPACE, Namespace::as_str)
    }

    /// The full name of a job. A text that is no name stays as it is: the node says what is wrong with it.
    pub(crate) fn job(&self, text: &str) -> String {
        self.full::<JobName>(text).map_or_else(|| text.to_owned(), |name| name.to_string())
    }

    /// The full name of a calendar, likewise.
    pub(crate) fn calendar(&self, text: &str) -> String {
        self.full::<CalendarName>(text).map_or_else(|| text.to_owned(), |name| name.to_string())
    }

    /// The full name of a secret, likewise.
    pub(crate) fn secret(&self, text: &str) -> String {
        self.full::<SecretName>(text).map_or_else(|| text.to_owned(), |name| name.to_string())
    }

    /// The full id of a run, or of a fire, likewise.
    pub(crate) fn run(&self, text: &str) -> String {
        let Some((job, rest)) = text.split_once(':') else { return text.to_owned() };
        format!("{}:{rest}", self.job(job))
    }

    fn full<N: Namespaced>(&self, text: &str) -> Option<N> {
        text.parse::<WrittenName<N>>().ok()?.resolve(self.name()).ok()
    }
}

impl ListedNamespaceArgs {
    /// The namespace whose objects are listed; `None` for all.
    pub(crate) fn filter(&self) -> Option<Namespace> {
        (!self.all_namespaces).then(|| self.one.namespace.clone().unwrap_or_default())
    }

    /// A hint that there are more of something in other namespaces, if there are and the namespace was not named.
    pub(crate) fn hint(&self, elsewhere: usize) -> Option<String> {
        let is_hidden = elsewhere > 0 && !self.all_namespaces && self.one.namespace.is_none();
        is_hidden.then(|| format!("{elsewhere} more in other namespaces: -A shows them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_namespace_is_in_the_one_of_the_command_line() {
        let args = |name: &str| NamespaceArgs { namespace: Some(name.parse().expect("a namespace")) };
        for (args, expected) in [
            (NamespaceArgs::default(), ["j", "j", "b/j"]),
            (args("default"), ["j", "j", "b/j"]),
            (args("a"), ["a/j", "j", "b/j"]),
        ] {
            let names = ["j", "default/j", "b/j"].map(|name| args.job(name));
            assert_eq!(names, expected);
            let runs = ["j:5:0", "default/j:5:0", "b/j:ask-x:0"].map(|run| args.run(run));
            assert_eq!(
                runs,
                [format!("{}:5:0", expected[0]), format!("{}:5:0", expected[1]), "b/j:ask-x:0".to_owned()]
            );
            assert_eq!(args.run("j:5"), format!("{}:5", expected[0]), "a fire");
        }
        assert_eq!(args("a").job("b/c/d"), "b/c/d", "no name");
        assert_eq!(args("a").run("nonsense"), "nonsense");
    }
}
