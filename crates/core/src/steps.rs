//! Counts what reading a text and looking for a fire cost, in tests; elsewhere it is nothing. A bound on steps says the
//! same on every machine, which a bound on time does not.

#[cfg(not(test))]
pub(crate) use silent::step;
#[cfg(test)]
pub(crate) use tests::step;

#[cfg(not(test))]
mod silent {
    /// One turn of a loop.
    pub(crate) fn step() {}
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;

    use core::cell::Cell;

    std::thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    /// One turn of a loop.
    pub(crate) fn step() {
        STEPS.with(|steps| steps.set(steps.get() + 1));
    }

    /// What a work yields, and how many steps it took.
    pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let before = STEPS.get();
        let done = work();
        (done, STEPS.get() - before)
    }
}
