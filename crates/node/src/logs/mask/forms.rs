//! The forms in which a secret is looked for: as it is, its lines, as JSON and in Base64.

use std::collections::BTreeSet;

use crate::secrets::SecretText;

/// The shortest text that is looked for, in bytes: shorter ones are parts of ordinary words.
const MIN: usize = 4;
/// The shortest secret whose Base64 is looked for.
const BASE64_MIN: usize = 8;
/// The longest one: what is longer is encoded in lines, as a rule.
const BASE64_MAX: usize = 4096;

const ALPHABETS: [&[u8; 64]; 2] = [
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
];

/// All texts to look for.
pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a SecretText>) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    for secret in secrets {
        let value = secret.value();
        let json = serde_json::to_string(value).unwrap_or_default();
        let quoted = 1..json.len().saturating_sub(1);
        let json = json.get(quoted).filter(|_| value.len() >= MIN).unwrap_or_default();
        let lines = value.lines().map(str::trim);
        let texts = [value, value.trim(), json].into_iter().chain(lines);
        forms.extend(texts.filter(|text| text.len() >= MIN).map(|text| text.as_bytes().to_vec()));
        if (BASE64_MIN..=BASE64_MAX).contains(&value.len()) {
            let shifts = (0..3).flat_map(|shift| ALPHABETS.map(|alphabet| (shift, alphabet)));
            forms.extend(shifts.map(|(shift, alphabet)| base64_within(value.as_bytes(), shift, alphabet)));
        }
    }
    forms
}

/// The characters that every Base64 text has in which the value stands after `shift` other bytes, up to a multiple of three.
/// The ones before and after them depend on what stands beside the value.
fn base64_within(value: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let (begin, end) = (shift * 8, (shift + value.len()) * 8);
    let bit = |at: usize| value.get(at / 8 - shift).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    let whole = (begin.div_ceil(6)..end / 6).map(|n| {
        let number = (n * 6..n * 6 + 6).fold(0_u8, |number, at| number << 1 | bit(at));
        alphabet.get(usize::from(number)).copied().unwrap_or_default()
    });
    whole.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(text: &str) -> BTreeSet<Vec<u8>> {
        of(SecretText::new(text.to_owned()).iter())
    }

    #[test]
    fn a_secret_is_looked_for_as_it_is_by_line_as_json_and_in_base64() {
        let has = |text: &str, form: &str| forms(text).contains(form.as_bytes());
        assert!(has("hunter2\n", "hunter2") && !has("hunter2\n", "hunter2\n"));
        assert!(
            has("first line\r\n\tsecond\nab\n", "first line")
                && has("first line\r\n\tsecond\nab\n", "second")
        );
        assert!(!has("first line\r\n\tsecond\nab\n", "ab"), "too short");
        assert!(has("say \"hi\"", r#"say \"hi\""#));
        assert_eq!(forms("abc").len(), 0);
        assert_eq!(forms("abcd").len(), 1);
        // Made by another program: printf '%s' "$text" | base64
        for (text, within) in [
            ("correct horse", "Y29ycmVjdCBob3JzZQ=="),
            ("user:correct horse", "dXNlcjpjb3JyZWN0IGhvcnNl"),
            ("a:correct horse!", "YTpjb3JyZWN0IGhvcnNlIQ=="),
            ("1234:correct horse\n", "MTIzNDpjb3JyZWN0IGhvcnNlCg=="),
        ] {
            let found =
                forms("correct horse").iter().any(|form| within.contains(&*String::from_utf8_lossy(form)));
            assert!(found, "{text}");
        }
        let odd = "??>>~~??>>~~";
        assert!(has(odd, "Pz8+Pn5+Pz8+Pn5+") && has(odd, "Pz8-Pn5-Pz8-Pn5-"));
    }
}
