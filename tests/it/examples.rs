//! The examples of `deploy/policies`: each folder holds a policy, the tests of what it promises (which `scenarios` runs on
//! every store), and what a gateway is told to feed it. Here gateway and policy meet.

use std::fs;
use std::process::Command;

use crate::harness::comporta::{Comporta, command};
use crate::harness::envoy::{Envoy, binary, replace_once};
use crate::harness::http::Response;
use crate::harness::process::PATIENCE;
use crate::harness::{read, repository};

const EXAMPLES: [&str; 6] = [
    "exports",
    "llm-tokens",
    "log-in",
    "public-endpoint",
    "saas-plans",
    "tenant-and-user",
];

fn policy(example: &str) -> String {
    format!("deploy/policies/{example}/policy.yaml")
}

fn domain_of(example: &str) -> String {
    let policy = read(&policy(example));
    let domain = policy.lines().find_map(|line| line.strip_prefix("domain: "));
    domain.expect("a domain").to_owned()
}

/// The lines of `gateway.yaml` below `key`, indented for where they go; none where there is no such key.
fn part(example: &str, key: &str, indent: usize) -> String {
    let gateway = read(&format!("deploy/policies/{example}/gateway.yaml"));
    let heading = format!("{key}:");
    gateway
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with(' '))
        .map(|line| format!("{:indent$}{line}\n", ""))
        .collect()
}

/// `deploy/envoy-headers.yaml` with the routes and filters of an example in place of its own. It believes what callers
/// say about themselves, for tests.
fn embedded(example: &str, configuration: &str) -> String {
    let (before, rest) = configuration
        .split_once("                      routes:\n")
        .expect("routes");
    let (_, after) = rest
        .split_once("    # Stands in for your service")
        .expect("the end of the routes");
    let routes = part(example, "routes", 22);
    assert!(!routes.is_empty(), "{example} has no routes");
    let configuration =
        format!("{before}                      routes:\n{routes}\n    # Stands in for your service{after}");
    let configuration = replace_once(
        &configuration,
        "domain: edge\n",
        &format!("domain: {}\n", domain_of(example)),
    );
    let configuration = replace_once(
        &configuration,
        "                          - remove_on_match: { key_matcher: { prefix: x-comporta- } }\n",
        "",
    );
    let filters = part(example, "http_filters", 16);
    let first = "                  - name: tidy-headers\n";
    replace_once(&configuration, first, &format!("{filters}{first}"))
}

#[test]
fn every_example_is_known_here() {
    let mut found: Vec<String> = fs::read_dir(repository("deploy/policies"))
        .expect("the examples")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    assert_eq!(found, EXAMPLES);
}

#[test]
fn check_has_nothing_to_say_about_the_examples() {
    for example in EXAMPLES {
        let output = command(["check"])
            .arg(repository(&policy(example)))
            .output()
            .expect("it starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            printed.starts_with("ok: ") && printed.lines().count() == 1,
            "{printed}"
        );
    }
}

#[test]
fn envoy_accepts_what_feeds_the_examples() {
    for example in EXAMPLES {
        let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
        fs::write(file.path(), embedded(example, &read("deploy/envoy-headers.yaml"))).expect("written");
        let output = Command::new(binary())
            .args([
                "--mode",
                "validate",
                "--disable-hot-restart",
                "--log-level",
                "error",
            ])
            .arg("--config-path")
            .arg(file.path())
            .output()
            .expect("Envoy starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{example}: {said}");
    }
}

/// An example in force: Comporta with its policy, and Envoy with its gateway in front.
fn running(example: &str, edit: impl FnOnce(String) -> String) -> (Comporta, Envoy) {
    let comporta = Comporta::serve(repository(&policy(example)), &[]);
    let envoy = Envoy::start_edited("envoy-headers.yaml", &comporta, |configuration| {
        edit(embedded(example, &configuration))
    });
    (comporta, envoy)
}

/// The limits that an answer tells about, with what is left of each.
fn told(answer: &Response) -> &str {
    answer.header("ratelimit")
}

const ANA: [(&str, &str); 2] = [("x-comporta-client", "ana"), ("x-comporta-plan", "free")];

#[test]
fn a_free_client_of_the_api_meets_both_of_its_limits() {
    let (_comporta, envoy) = running("saas-plans", |configuration| configuration);
    let answer = envoy.get("/", &ANA);
    assert_eq!(answer.status, 200);
    let policy = answer.header("ratelimit-policy");
    assert!(policy.contains(r#""client/plan:minute";q=60"#), "{policy}");
    assert!(policy.contains(r#""client/plan:day";q=300"#), "{policy}");
}

#[test]
fn exports_pay_from_the_budget_of_reads() {
    let (_comporta, envoy) = running("exports", |configuration| configuration);
    let read = envoy.get("/items", &ANA);
    assert!(told(&read).contains(r#""units";r=199"#), "{}", told(&read));
    let search = envoy.get("/search?q=x", &ANA);
    assert!(told(&search).contains(r#""units";r=19"#), "{}", told(&search));
    assert_eq!(envoy.get("/exports/1", &ANA).status, 200);
    assert_eq!(envoy.get("/exports/2", &ANA).status, 200);
    let third = envoy.get("/exports/3", &ANA);
    assert_eq!(third.status, 429);
    assert!(third.body.contains("exports_of"), "{}", third.body);
}

#[test]
fn an_address_has_a_budget_of_its_own_at_a_public_endpoint() {
    let (_comporta, envoy) = running("public-endpoint", |configuration| configuration);
    let answer = envoy.get::<&str>("/", &[]);
    assert_eq!(answer.status, 200);
    assert!(
        told(&answer).contains(r#""remote_address";r=19"#),
        "{}",
        told(&answer)
    );
}

#[test]
fn a_user_has_a_part_of_its_tenant() {
    let (_comporta, envoy) = running("tenant-and-user", |configuration| configuration);
    // Nobody is verified here, so the tenant, its size and the user are those that stand in.
    let answer = envoy.get::<&str>("/", &[]);
    assert_eq!(answer.status, 200);
    assert!(
        told(&answer).contains(r#""tenant/size";r=99"#),
        "{}",
        told(&answer)
    );
    assert!(
        told(&answer).contains(r#""tenant/user";r=29"#),
        "{}",
        told(&answer)
    );
}

#[test]
fn an_account_has_five_tries_to_log_in() {
    let (_comporta, envoy) = running("log-in", |configuration| configuration);
    let try_as = |body: &str| -> String {
        let output = Command::new("curl")
            .args([
                "-s",
                "-o",
                "-",
                "-w",
                " %{http_code}",
                "-H",
                "content-type: application/json",
            ])
            .args(["-d", body, &format!("http://{}/log-in", envoy.edge())])
            .output()
            .expect("curl starts");
        String::from_utf8(output.stdout).expect("text")
    };
    for spelling in ["ana", "Ana", "ANA", "ana", "aNa"] {
        let answer = try_as(&format!(r#"{{"account":"{spelling}","password":"x"}}"#));
        assert!(answer.ends_with(" 200"), "{answer}");
    }
    let sixth = try_as(r#"{"account":"ana","password":"x"}"#);
    assert!(sixth.ends_with(" 429"), "{sixth}");
    assert!(sixth.contains("log_in=account/account"), "{sixth}");
    let other = try_as(r#"{"account":"ben","password":"x"}"#);
    assert!(other.ends_with(" 200"), "{other}");
}

#[test]
fn tokens_are_charged_when_the_answer_has_been_sent() {
    // The model's answers take 3000 tokens each.
    let (comporta, envoy) = running("llm-tokens", |configuration| {
        replace_once(
            &configuration,
            "                          direct_response:\n",
            "                          response_headers_to_add: [{ header: { key: x-tokens-used, value: \"3000\" } }]\n                          direct_response:\n",
        )
    });
    // 4000 at once: the first answer leaves 1000, the second goes above it, and the third is not begun.
    for left in [1000, 0] {
        assert_eq!(envoy.get("/v1/chat", &ANA).status, 200);
        let started = std::time::Instant::now();
        loop {
            let look = command([
                "call",
                comporta.grpc(),
                "llm",
                "client=ana,plan=free",
                "--hits",
                "0",
                "--json",
            ])
            .output()
            .expect("it starts");
            let look: serde_json::Value = serde_json::from_slice(&look.stdout).expect("JSON");
            let remaining = look["statuses"][0]["remaining"].as_u64().expect("a number");
            // Some have come back meanwhile.
            if (left..left + 900).contains(&remaining) {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{look}");
        }
    }
    let third = envoy.get("/v1/chat", &ANA);
    assert_eq!(third.status, 429, "{third:?}");
    assert!(third.body.contains("client/plan:minute"), "{}", third.body);
}
