//! Which addresses of a provider are used: encrypted ones, and those on this host.

use ureq::http::Uri;

use crate::client::is_here;

/// Whether an address is encrypted, or on this host.
pub(crate) fn is_safe_address(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let is_plain = !address.contains(['#', '@']) && uri.host().is_some_and(|host| !host.is_empty());
    match uri.scheme_str() {
        Some("https") => is_plain,
        Some("http") => is_plain && is_here(address),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_encrypted_or_on_this_host() {
        for fine in [
            "https://id.example",
            "https://id.example:8443/a?b=c",
            "http://127.0.0.1:9/a",
            "http://localhost",
            "http://[::1]:1",
        ] {
            assert!(is_safe_address(fine), "{fine}");
        }
        for other in [
            "",
            "id.example",
            "http://id.example",
            "http://127.0.0.1@id.example",
            "http://localhost.id.example",
            "file:///etc/passwd",
            "https://",
            "https:///a",
            "javascript:alert(1)",
            "https://id.example/#a",
            "//id.example",
        ] {
            assert!(!is_safe_address(other), "{other}");
        }
    }
}
