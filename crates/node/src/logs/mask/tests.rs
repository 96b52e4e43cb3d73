//! What is masked in an output, whatever the pieces in which it is read.

use super::*;

fn mask(secrets: &[&str]) -> Option<OutputMask> {
    let secrets: Vec<SecretText> =
        secrets.iter().filter_map(|text| SecretText::new((*text).to_owned())).collect();
    OutputMask::new(secrets.iter())
}

/// The output as it is written when it is read in pieces of this size.
fn masked(secrets: &[&str], output: &str, size: usize) -> String {
    let mut mask = mask(secrets).unwrap();
    let mut written: Vec<u8> = output.as_bytes().chunks(size).flat_map(|piece| mask.take(piece)).collect();
    written.extend(mask.finish());
    String::from_utf8(written).unwrap()
}

/// proves: I52
#[test]
fn a_secret_is_masked_whatever_the_pieces() {
    for (secrets, output, expected) in [
        (&["hunter2"][..], "the password is hunter2, yes", "the password is ***, yes"),
        (&["hunter2"], "hunthunter2hunter hunter2", "hunt***hunter ***"),
        (&["hunter2"], "hunter2hunter2", "***"),
        (&["hunter2", "hunter2-long"], "a hunter2-lo hunter2-long", "a ***-lo ***"),
        (&["abcdef", "defghi"], "xabcdefghix", "x***x"),
        (&["abcd", "xxabcdyy"], "abcd xxabcdyy xxabcd", "*** *** xx***"),
        (&["aaaa"], "aaa aaaaaaaa aaa", "aaa *** aaa"),
        (&["first line\nsecond line\n"], "- first line\n- second line\n", "- ***\n- ***\n"),
        (&["first line\nsecond line\n"], "first line\nsecond line\n", "***\n"),
        (&["ünïcode"], "ein ünïcode!", "ein ***!"),
        (&["unused-secret"], "nothing to see, unused-secre", "nothing to see, unused-secre"),
    ] {
        for size in 1..=output.len() {
            assert_eq!(masked(secrets, output, size), expected, "{output:?} in pieces of {size}");
        }
    }
}

/// A slow judge, which knows the whole output, says the same of texts that are hard to take apart.
///
/// proves: I52
#[test]
fn no_byte_of_a_secret_is_written_and_no_other_is_lost() {
    let secrets = ["abab", "babb", "aabba", "bbbbb", "abbaabba"];
    let mut seed = 7_u32;
    let mut found = 0;
    for round in 0..2_000 {
        let output: String = (0..40)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ["a", "b", "c"][(seed >> 16) as usize % 3]
            })
            .collect();
        let mut hidden = vec![false; output.len()];
        for secret in secrets {
            for at in (0..output.len()).filter(|at| output[*at..].starts_with(secret)) {
                hidden[at..at + secret.len()].fill(true);
            }
        }
        let mut expected = String::new();
        for (at, letter) in output.chars().enumerate() {
            match hidden[at] {
                false => expected.push(letter),
                true if at > 0 && hidden[at - 1] => {}
                true => expected.push_str("***"),
            }
        }
        found += usize::from(expected.contains("***"));
        assert_eq!(masked(&secrets, &output, 1 + round % 7), expected, "{output}");
    }
    assert!(found > 200, "{found} had a secret");
}

#[test]
fn only_what_may_be_the_beginning_of_a_secret_is_held_back() {
    let mut mask = mask(&["hunter2"]).unwrap();
    assert_eq!(mask.take(b"password: "), b"password: ");
    assert_eq!(mask.take(b"hunt"), b"");
    assert_eq!(mask.take(b"ing"), b"hunting");
    assert_eq!(mask.take(b"hunter"), b"");
    assert_eq!(mask.finish(), b"hunter");
    assert!(super::tests::mask(&["abc", "x\ny"]).is_none(), "there is nothing to look for");
}
