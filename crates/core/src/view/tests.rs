//! The view under news of every kind.
