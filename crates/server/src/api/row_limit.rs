//! How many rows a caller asks for.

use std::fmt::Display;

use super::ApiError;

/// The number under a key of the query, or the usual one.
///
/// # Errors
/// It is not between one and the most: a list that is cut without a word would look whole.
pub(super) fn row_limit<N: Copy + Display + PartialOrd + From<u8>>(
    key: &str,
    asked: Option<N>,
    (usual, most): (N, N),
) -> Result<N, ApiError> {
    match asked {
        None => Ok(usual),
        Some(rows) if N::from(1) <= rows && rows <= most => Ok(rows),
        Some(rows) => Err(ApiError::invalid(format!("{key} is {rows}, allowed are 1 to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_is_refused_and_not_cut() {
        let of = |asked| row_limit::<usize>("limit", asked, (100, 1_000)).map_err(ApiError::message);
        assert_eq!((of(None), of(Some(1)), of(Some(1_000))), (Ok(100), Ok(1), Ok(1_000)));
        for wrong in [0, 1_001] {
            assert_eq!(of(Some(wrong)), Err(format!("limit is {wrong}, allowed are 1 to 1000")));
        }
    }
}
