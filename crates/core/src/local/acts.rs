//! Commits under way, counted by what they do.

use alloc::collections::BTreeMap;

use super::Pace;

/// The acts after which a run is open that takes a slot: until then each counts for one.
const CLAIMS: [&str; 5] = ["claim fire", "try again", "accept", "confirm shards", "enter pool"];

/// How many commits of each act are under way. What is asked for at each fire is counted as they come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acts {
    each: BTreeMap<&'static str, usize>,
    paced: usize,
    claims: usize,
}

impl Acts {
    /// One more is under way.
    pub fn begin(&mut self, why: &'static str) {
        *self.each.entry(why).or_default() += 1;
        self.paced += usize::from(Pace::counts(why));
        self.claims += usize::from(CLAIMS.contains(&why));
    }

    /// One that was under way is over.
    pub fn end(&mut self, why: &str) {
        let Some(count) = self.each.get_mut(why).filter(|count| **count > 0) else { return };
        *count -= 1;
        self.paced -= usize::from(Pace::counts(why));
        self.claims -= usize::from(CLAIMS.contains(&why));
    }

    /// How many of this act.
    #[must_use]
    pub fn of(&self, why: &str) -> usize {
        self.each.get(why).copied().unwrap_or(0)
    }

    /// How many claims and confirmations of fires.
    #[must_use]
    pub fn paced(&self) -> usize {
        self.paced
    }

    /// How many that will take a slot.
    #[must_use]
    pub fn claims(&self) -> usize {
        self.claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_counted_by_act_and_by_kind() {
        let mut acts = Acts::default();
        for why in ["claim fire", "claim fire", "confirm", "enter pool", "join"] {
            acts.begin(why);
        }
        assert_eq!((acts.of("claim fire"), acts.of("ease"), acts.paced(), acts.claims()), (2, 0, 3, 3));
        for why in ["claim fire", "enter pool", "join", "join"] {
            acts.end(why);
        }
        assert_eq!((acts.of("claim fire"), acts.of("join"), acts.paced(), acts.claims()), (1, 0, 2, 1));
    }
}
