//! Requests as declared.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::*;
use crate::job::Work;
use crate::job::{Job, JobFile, RunParameters};

fn read_job(fields: &str) -> Result<Job, String> {
    let text = format!(r#"{{"name":"j",{fields}}}"#);
    let file: JobFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    Job::parse(file).map_err(|e| e.to_string())
}

fn http(fields: &str) -> Result<Http, String> {
    read_job(&format!(r#""http":{{"url":"https://h/x",{fields}}}"#)).map(|job| *job.to_file().http.unwrap())
}

fn wrong(fields: &str) -> String {
    http(fields).unwrap_err()
}

#[test]
fn what_is_not_said_is_not_written() {
    let job = read_job(r#""http":{"url":"http://h/"}"#).unwrap();
    assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"name":"j","http":{"url":"http://h/"}}"#);
    assert_eq!(job.work.action(), Work::Http(Box::new(Http::new("http://h/"))));
    let all = r#"{"name":"j","http":{"url":"https://h/","method":"PUT","headers":{"A":"1"},"body":"x","success":[200,"300-399"],"redirects":2,"ca":"/c"}}"#;
    let job = Job::parse(serde_json::from_str(all).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&job).unwrap(), all);
}

#[test]
fn the_word_of_a_request_goes_by_its_body() {
    assert_eq!(http(r#""redirects":0"#).unwrap().method(), "GET");
    assert_eq!(http(r#""body":"x""#).unwrap().method(), "POST");
    assert_eq!(http(r#""body":"x","method":"PUT""#).unwrap().method(), "PUT");
    assert!(wrong(r#""body":"x","method":"GET""#).contains("goes with POST"));
    assert!(wrong(r#""method":"get""#).contains("use one of GET, HEAD"));
    assert!(wrong(r#""method":"CONNECT""#).contains("use one of GET, HEAD"));
}

#[test]
fn a_job_does_one_thing() {
    let both = |fields: &str| read_job(&format!(r#""http":{{"url":"http://h/"}},{fields}"#)).unwrap_err();
    assert!(both(r#""command":["x"]"#).contains("give one of command, function and http"));
    assert!(both(r#""function":"f""#).contains("give one of command, function and http"));
    assert!(both(r#""stdin":"x""#).contains("stdin is for commands"));
    assert!(both(r#""user":"u""#).contains("user is for commands"));
    let codes = both(r#""retry":{"max_retries":1,"exit_codes":[3]}"#);
    assert!(codes.contains("exit codes of a command"), "{codes}");
    assert!(read_job(r#""description":"x""#).unwrap_err().contains("or http"));
}

#[test]
fn addresses_that_lead_nowhere_are_refused_with_the_fix() {
    let url = |url: &str| read_job(&format!(r#""http":{{"url":{url:?}}}"#)).map(|_| ());
    for good in ["http://h", "https://h:1/x?y=%20z", "http://[::1]/", "http://[::1]:8080/x", "http://127.1?x"]
    {
        assert_eq!(url(good), Ok(()), "{good}");
    }
    for (bad, says) in [
        ("", "write http://HOST/PATH"),
        ("h/x", "write http://HOST/PATH"),
        ("ftp://h/", "write http://HOST/PATH"),
        ("gopher://h/", "write http://HOST/PATH"),
        ("http:///x", "names no host"),
        ("http://[]/x", "names no host"),
        ("http://h:0/", "no number from 1 to 65535"),
        ("http://h:x/", "no number from 1 to 65535"),
        ("http://[::1]x/", "no number from 1 to 65535"),
        ("http://u:p@h/", "Authorization header"),
        ("http://h/#x", "never sent"),
        ("http://h/a b", "percent-encoded"),
        ("http://h/\\evil", "percent-encoded"),
        ("http://h/\n", "percent-encoded"),
        ("http://h/{{run}}", "only http.body is filled in"),
    ] {
        let said = url(bad).unwrap_err();
        assert!(said.contains(says), "{bad}: {said}");
    }
    assert!(url(&format!("http://h/{}", "x".repeat(5000))).unwrap_err().contains("longer than"));
}

#[test]
fn headers_that_are_not_a_jobs_to_give_are_refused() {
    for (header, says) in [
        (r#""Idempotency-Key":"x""#, "set for every run"),
        (r#""EVENKEEL-FENCE":"9""#, "set for every run"),
        (r#""evenkeel-anything":"9""#, "set for every run"),
        (r#""Host":"h""#, "the connection sets itself"),
        (r#""Content-Length":"9""#, "the connection sets itself"),
        (r#""Transfer-Encoding":"chunked""#, "the connection sets itself"),
        (r#""":"x""#, "no header's name"),
        (r#""a b":"x""#, "no header's name"),
        (r#""a:":"x""#, "no header's name"),
        (r#""A":"x\r\nEvenkeel-Fence: 9""#, "what no header holds"),
        (r#""A":"ä""#, "what no header holds"),
        (r#""A":"{{run}}""#, "only secrets are filled in"),
        (r#""A":"{{secret:../key}}""#, "the secret's name is none"),
        (r#""A":"1","a":"2""#, "twice"),
    ] {
        let said = wrong(&format!(r#""headers":{{{header}}}"#));
        assert!(said.contains(says), "{header}: {said}");
    }
    assert!(http(r#""headers":{"Authorization":"Bearer {{secret:token}}"}"#).is_ok());
    assert!(http(r#""headers":{"Authorization":"Bearer x","Content-Type":"application/json"}"#).is_ok());
}

#[test]
fn good_answers_are_codes_and_spans_of_codes() {
    let codes = http(r#""success":["200-204",404]"#).unwrap().success;
    let good: alloc::vec::Vec<u16> = (0..=999).filter(|code| codes.contains(*code)).collect();
    assert_eq!(good, [200, 201, 202, 203, 204, 404]);
    assert!(StatusCodes::default().contains(299) && !StatusCodes::default().contains(300));
    for (success, says) in [
        ("[]", "has 0 codes"),
        ("[99]", "codes are 200 to 599"),
        ("[\"299-200\"]", "the smaller one first"),
        ("[\"2xx\"]", "write 404 or"),
        ("[70000]", "no such code"),
        ("[-1]", "no such code"),
        ("200", "a list of codes"),
    ] {
        let said = wrong(&format!(r#""success":{success}"#));
        assert!(said.contains(says), "{success}: {said}");
    }
}

#[test]
fn what_else_makes_no_sense_is_refused() {
    for (fields, says) in [
        (r#""redirects":11"#, "allowed are 0 to 10"),
        (r#""redirects":-1"#, "invalid value"),
        (r#""ca":"ca.pem""#, "begins with /"),
        (r#""ca":"/ca.pem","verify":false"#, "leave one of them out"),
        (r#""retries":1"#, "unknown field `retries`"),
    ] {
        assert!(wrong(fields).contains(says), "{fields}: {}", wrong(fields));
    }
    let plain = read_job(r#""http":{"url":"http://h/","verify":false}"#).unwrap_err();
    assert!(plain.contains("are about https"), "{plain}");
    assert!(read_job(r#""http":{"method":"GET"}"#).unwrap_err().contains("missing field `url`"));
}

fn none(name: &str) -> Result<String, String> {
    Err(format!("no {name}"))
}

fn parameters() -> RunParameters {
    [("day", "2026-01-31"), ("q", "\"{{run}}\"")]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into_iter()
        .collect()
}

fn facts() -> BTreeMap<&'static str, String> {
    BTreeMap::from([("EVENKEEL_RUN", "j:1:0".to_string()), ("EVENKEEL_PARAMETER", "a \"b\"".to_string())])
}

#[test]
fn a_body_is_filled_with_facts_of_the_run_and_nothing_else() {
    for (template, filled) in [
        ("", ""),
        ("plain } }} {x}", "plain } }} {x}"),
        ("{{run}}", "j:1:0"),
        (
            r#"{"run":{{ run | json }},"p":{"q":{{parameter|json}}}}"#,
            r#"{"run":"j:1:0","p":{"q":"a \"b\""}}"#,
        ),
        ("{{parameter}}", "a \"b\""),
        ("{{{{run}} {{{{", "{{run}} {{"),
        ("ä{{run}}ö", "äj:1:0ö"),
        ("{{parameter:day}} {{ parameter:q | json }}", r#"2026-01-31 "\"{{run}}\"""#),
    ] {
        assert_eq!(fill(template, (&facts(), &parameters()), none).unwrap(), filled, "{template}");
    }
    let absent = fill("{{parameter:x}}", (&facts(), &parameters()), none).unwrap_err();
    assert_eq!(absent, "the run has no parameter x");
    // What a parameter holds is never read as a template.
    let sly = BTreeMap::from([("EVENKEEL_PARAMETER", "{{fence}}".to_string())]);
    assert_eq!(fill("{{parameter}}", (&sly, &parameters()), none).unwrap(), "{{fence}}");
    let long = BTreeMap::from([("EVENKEEL_PARAMETER", "x".repeat(BODY_MAX / 2))]);
    assert_eq!(fill("{{parameter}}{{parameter}}", (&long, &parameters()), none).unwrap().len(), BODY_MAX);
    assert!(
        fill("{{parameter}}{{parameter}}!", (&long, &parameters()), none)
            .unwrap_err()
            .contains("longer than")
    );
}

#[test]
fn a_wrong_template_is_refused_with_its_place() {
    for (body, says) in [
        (
            r"a\nb {{tokn}}",
            "http.body, line 2, column 3: there is no such fact of a run: use one of job, namespace, run, due",
        ),
        (r"{{run", "http.body, line 1, column 1: {{ has no }}"),
        (r"ä {{}}", "line 1, column 3: there is no such fact"),
        (r"{{run | html}}", "leave out what follows the |"),
        (r"{{EVENKEEL_REGISTRY}}", "there is no such fact"),
    ] {
        let said = wrong(&format!(r#""body":"{body}""#));
        assert!(said.contains(says), "{body}: {said}");
        // A secret may stand there by mistake.
        assert!(!said.contains("tokn") && !said.contains("REGISTRY"), "{said}");
    }
}

/// proves: I52
#[test]
fn a_secret_is_named_by_a_plain_name_and_filled_in_where_it_stands() {
    let secrets = |name: &str| match name {
        "token" => Ok("a\"b".to_string()),
        "sly" => Ok("{{secret:token}}".to_string()),
        _ => none(name),
    };
    for (template, filled) in [
        ("Bearer {{secret:token}}", "Bearer a\"b"),
        ("{\"t\":{{ secret:token | json }}}", "{\"t\":\"a\\\"b\"}"),
        ("{{secret:sly}}", "{{secret:token}}"),
    ] {
        assert_eq!(fill(template, (&facts(), &parameters()), secrets).unwrap(), filled, "{template}");
    }
    assert_eq!(fill("{{secret:other}}", (&facts(), &parameters()), secrets).unwrap_err(), "no other");
    for name in ["", ".", "..", "a/b", "../a", "/a", "a b", ".hidden", &"x".repeat(65)] {
        let said = fill(&format!("{{{{secret:{name}}}}}"), (&facts(), &parameters()), |_| {
            panic!("it is not asked for")
        })
        .unwrap_err();
        assert!(said.contains("the secret's name is none"), "{name}: {said}");
    }
}
