//! Defaults of many keys, and whether a key has its default, as serde asks for them.

pub(super) fn one() -> u32 {
    1
}

pub(super) fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_one(n: &u32) -> bool {
    *n == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_yes(b: &bool) -> bool {
    *b
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
