//! The last look: faults have ended, time has passed, and everything should be at rest.
