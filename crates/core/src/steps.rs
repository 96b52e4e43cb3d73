//! Step counts: what parsing a text and finding a fire cost, counted in tests only. A bound on steps says the same on
//! every machine, which a bound on time does not.

#[cfg(not(test))]
pub(crate) use silent::step;
#[cfg(test)]
pub(crate) use tests::step;

#[cfg(not(test))]
mod silent {
    /// Counts one turn of a loop.
    pub(crate) fn step() {}
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts one turn of a loop.
    pub(crate) fn step() {
        STEPS.with(|steps| steps.set(steps.get() + 1));
    }

    /// The result of some work, and how many steps it took.
    pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let before = STEPS.get();
        let done = work();
        (done, STEPS.get() - before)
    }
}
