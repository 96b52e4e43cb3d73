//! An OpenID Connect provider of the tests' own, which checks what a client sends as real ones do, and lies when a test says so.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The one client that the provider knows.
pub(crate) const CLIENT: &str = "jobs";
pub(crate) const SECRET: &str = "a secret: with signs/+&";

/// What the provider does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lie {
    #[default]
    None,
    /// In the ID token.
    Nonce,
    Audience,
    Party,
    Issuer,
    Expired,
    NoSignature,
    PublicSecret,
    OtherKey,
    UnknownKey,
    NoToken,
    /// In its answers.
    Closes,
    Fails,
    NoJson,
    Endless,
    OtherDocument,
    PlainToken,
    OtherPerson,
}

/// A provider on loopback.
pub(crate) struct TestProvider {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<ProviderState>>,
}

/// What a test can change.
pub(crate) struct ProviderState {
    /// Where the client is.
    pub(crate) redirects: Vec<String>,
    /// What is said of the person that logs in; its groups only at the address for that, if `groups_apart`.
    pub(crate) person: Value,
    pub(crate) groups_apart: bool,
    pub(crate) lie: Lie,
    /// Whether the client has a secret.
    pub(crate) confidential: bool,
    /// The paths that were asked for.
    pub(crate) asked: Vec<String>,
    keys: Vec<(String, EncodingKey)>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
    issued: usize,
}

impl ProviderState {
    /// Signs with another key from now on, which its document shows.
    pub(crate) fn rotate(&mut self) {
        let name = format!("k{}", self.keys.len());
        self.keys.push((name, new_key()));
    }
}

impl TestProvider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = ProviderState {
            redirects: Vec::new(),
            person: json!({ "sub": "s-1", "groups": ["devs"] }),
            groups_apart: false,
            lie: Lie::None,
            confidential: true,
            asked: Vec::new(),
            keys: vec![("k0".to_owned(), new_key())],
            codes: BTreeMap::new(),
            issued: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let own = Self { address, state: state.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that breaks off is its own affair.
                let _ = answer(stream, address, &state);
            }
        });
        own
    }

    pub(crate) fn issuer(&self) -> String {
        issuer(self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().expect("held by none")
    }
}

fn issuer(address: SocketAddr) -> String {
    format!("http://{address}/realm")
}

fn new_key() -> EncodingKey {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    EncodingKey::from_ec_der(pair.serialized_der())
}

fn answer(stream: TcpStream, address: SocketAddr, state: &Mutex<ProviderState>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut headers) = (String::new(), BTreeMap::new());
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? <= 2 {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut state = state.lock().expect("held by none");
    state.asked.push(path.to_owned());
    let lie = state.lie;
    let (status, more, body) = match path {
        _ if lie == Lie::Closes => return Ok(()),
        _ if lie == Lie::Fails => (500, String::new(), "{}".to_owned()),
        _ if lie == Lie::NoJson => (200, String::new(), "<html>".to_owned()),
        _ if lie == Lie::Endless => return endless(stream),
        "/realm/.well-known/openid-configuration" => (200, String::new(), document(address, lie).to_string()),
        "/realm/keys" => (200, String::new(), keys(&state).to_string()),
        "/realm/authorize" => authorize(&mut state, address, &fields(query)),
        "/realm/token" => {
            let fields = fields(&String::from_utf8_lossy(&body));
            token(&mut state, address, headers.get("authorization"), &fields)
        }
        "/realm/userinfo" => userinfo(&state, headers.get("authorization")),
        _ => (404, String::new(), "{}".to_owned()),
    };
    drop(state);
    let head =
        format!("HTTP/1.1 {status} X\r\n{more}Content-Type: application/json\r\nConnection: close\r\n");
    write!(&stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// An answer that goes on until the client has enough.
fn endless(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n{\"issuer\":\"")?;
    loop {
        stream.write_all(&[b'x'; 65_536])?;
    }
}

fn document(address: SocketAddr, lie: Lie) -> Value {
    let issuer = issuer(address);
    let token = match lie {
        Lie::PlainToken => "http://id.example/token".to_owned(),
        _ => format!("{issuer}/token"),
    };
    json!({
        "issuer": if lie == Lie::OtherDocument { "https://evil.example" } else { &issuer },
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": token,
        "jwks_uri": format!("{issuer}/keys"),
        "userinfo_endpoint": format!("{issuer}/userinfo"),
        "authorization_response_iss_parameter_supported": true,
    })
}

/// All keys but one that a test keeps back, and those of a kind that no client knows.
fn keys(state: &ProviderState) -> Value {
    let shown = state.keys.iter().map(|(name, key)| public(name, key));
    let mut all =
        vec![json!({ "kty": "new", "kid": "k0" }), json!({ "kty": "oct", "k": "AAAA", "kid": "k0" })];
    all.extend(shown);
    json!({ "keys": all })
}

fn public(name: &str, key: &EncodingKey) -> Value {
    let mut key = Jwk::from_encoding_key(key, Algorithm::ES256).expect("a public key");
    key.common.key_id = Some(name.to_owned());
    serde_json::to_value(key).expect("JSON")
}

/// Logs the person in and sends the browser back with a code, if the client is known and sent what it has to.
fn authorize(
    state: &mut ProviderState,
    address: SocketAddr,
    fields: &BTreeMap<String, String>,
) -> (u16, String, String) {
    let has = |name: &str, value: &str| fields.get(name).is_some_and(|given| given == value);
    let redirect = fields.get("redirect_uri").filter(|redirect| state.redirects.contains(redirect));
    let long = |name: &str| fields.get(name).is_some_and(|value| value.len() >= 43);
    let right = has("client_id", CLIENT)
        && has("response_type", "code")
        && has("code_challenge_method", "S256")
        && fields.get("scope").is_some_and(|scope| scope.split(' ').any(|scope| scope == "openid"))
        && ["state", "nonce", "code_challenge"].into_iter().all(long);
    let (Some(redirect), true) = (redirect, right) else {
        return (400, String::new(), format!("wrong request: {fields:?}, of {:?}", state.redirects));
    };
    state.issued += 1;
    let code = format!("code-{}", state.issued);
    let back =
        format!("{redirect}?state={}&code={code}&session_state=x&iss={}", fields["state"], issuer(address));
    state.codes.insert(code, fields.clone());
    (302, format!("Location: {back}\r\n"), String::new())
}

/// Gives a token for a code, once, to the client that began the login.
fn token(
    state: &mut ProviderState,
    address: SocketAddr,
    shown: Option<&String>,
    fields: &BTreeMap<String, String>,
) -> (u16, String, String) {
    let refusal = |status, error: &str| (status, String::new(), json!({ "error": error }).to_string());
    let known = match shown.and_then(|shown| shown.strip_prefix("Basic ")) {
        Some(basic) => {
            let pair = String::from_utf8(STANDARD.decode(basic).expect("base64")).expect("text");
            pair.split_once(':')
                .is_some_and(|(id, secret)| unescaped(id) == CLIENT && unescaped(secret) == SECRET)
        }
        None => !state.confidential && fields.get("client_id").is_some_and(|id| id == CLIENT),
    };
    if !known {
        return refusal(401, "invalid_client");
    }
    let Some(asked) = fields.get("code").and_then(|code| state.codes.remove(code)) else {
        return refusal(400, "invalid_grant");
    };
    let verifier = fields.get("code_verifier").map(String::as_str).unwrap_or_default();
    let right = fields.get("grant_type").is_some_and(|kind| kind == "authorization_code")
        && fields.get("redirect_uri") == asked.get("redirect_uri")
        && URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) == asked["code_challenge"];
    if !right {
        return refusal(400, "invalid_grant");
    }
    let mut answer = json!({ "access_token": "access", "token_type": "Bearer" });
    if state.lie != Lie::NoToken {
        answer["id_token"] = Value::from(id_token(state, address, &asked["nonce"]));
    }
    (200, String::new(), answer.to_string())
}

fn id_token(state: &ProviderState, address: SocketAddr, nonce: &str) -> String {
    let (lie, now) = (state.lie, evenkeel::clock::now().wall.0 / 1_000);
    let mut claims = state.person.clone();
    if state.groups_apart {
        claims.as_object_mut().expect("an object").remove("groups");
    }
    claims["iss"] =
        Value::from(if lie == Lie::Issuer { "https://evil.example".to_owned() } else { issuer(address) });
    claims["aud"] = Value::from(if lie == Lie::Audience { "other" } else { CLIENT });
    claims["nonce"] = Value::from(if lie == Lie::Nonce { "0".repeat(64) } else { nonce.to_owned() });
    claims["iat"] = Value::from(now);
    claims["exp"] = Value::from(if lie == Lie::Expired { now - 61 } else { now + 300 });
    if lie == Lie::Party {
        claims["azp"] = Value::from("other");
    }
    let (name, key) = state.keys.last().expect("a key");
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(if lie == Lie::UnknownKey { "none".to_owned() } else { name.clone() });
    match lie {
        Lie::NoSignature => {
            let header = json!({ "alg": "none", "kid": name }).to_string();
            format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()))
        }
        Lie::PublicSecret => {
            header.alg = Algorithm::HS256;
            let secret =
                EncodingKey::from_secret(public(name, key)["x"].as_str().expect("a text").as_bytes());
            encode(&header, &claims, &secret).expect("it is signed")
        }
        Lie::OtherKey => encode(&header, &claims, &new_key()).expect("it is signed"),
        _ => encode(&header, &claims, key).expect("it is signed"),
    }
}

fn userinfo(state: &ProviderState, shown: Option<&String>) -> (u16, String, String) {
    if shown.is_none_or(|shown| shown != "Bearer access") {
        return (401, String::new(), "{}".to_owned());
    }
    let mut person = state.person.clone();
    if state.lie == Lie::OtherPerson {
        person["sub"] = Value::from("s-2");
    }
    (200, String::new(), person.to_string())
}

/// The fields of a form or a query.
fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), unescaped(value))).collect()
}

fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).expect("digits"), 16).expect("a byte")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("text")
}
