//! The deterministic simulator.

pub mod model;
