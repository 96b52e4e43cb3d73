//! Crontabs as people have them.
