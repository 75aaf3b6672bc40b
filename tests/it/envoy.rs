//! Requests through a real Envoy with the configurations of `deploy/`, decided by `deploy/policy.yaml`.
//!
//! Budgets refill while a test runs, and a slow machine makes that visible. So what is counted is held against
//! "burst + rate × time", with the time as it was, unless a policy of the test's own refills too slowly to matter.

use std::time::{Duration, Instant};

use crate::harness::bearer;
use crate::harness::comporta::Comporta;
use crate::harness::envoy::{Envoy, replace_once};
use crate::harness::http::Response;
use crate::harness::redis::Redis;
use crate::harness::repository;

/// The demo policy, embedded store, one gateway.
fn edge(configuration: &str) -> (Envoy, Comporta) {
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    (Envoy::start(configuration, &comporta), comporta)
}

/// Sends requests until one is refused, and holds the number before it against what the limit allows. Returns the first
/// response and the refusal.
fn spend(burst: u32, refills_every: Duration, mut send: impl FnMut() -> Response) -> (Response, Response) {
    let start = Instant::now();
    let mut admitted = Vec::new();
    loop {
        let response = send();
        if response.status == 429 {
            assert!(
                admitted.len() >= burst as usize,
                "only {} of {burst} were admitted",
                admitted.len()
            );
            return (admitted.swap_remove(0), response);
        }
        admitted.push(response);
        let refilled = start.elapsed().as_nanos() / refills_every.as_nanos();
        assert!(
            admitted.len() as u128 <= u128::from(burst) + refilled,
            "too many: {admitted:#?}"
        );
    }
}

/// The limit that a refusal is about, after a look at everything that a refusal must say.
fn refused_by(refusal: &Response) -> String {
    assert_eq!(refusal.status, 429);
    assert_eq!(refusal.header("content-type"), "application/problem+json");
    assert_eq!(refusal.header("x-envoy-ratelimited"), "true");
    assert!(refusal.header("ratelimit").contains(";r=0;t="), "{refusal:#?}");
    assert!(refusal.header("ratelimit-policy").contains(";q="), "{refusal:#?}");
    let retry_after: u64 = refusal.header("retry-after").parse().expect("whole seconds");
    assert!(retry_after >= 1);
    let problem: serde_json::Value = serde_json::from_str(&refusal.body).expect("a problem in JSON");
    assert!(
        problem["type"]
            .as_str()
            .expect("its type")
            .ends_with("#quota-exceeded"),
        "{problem}"
    );
    assert_eq!(problem["retry_after"], retry_after);
    problem["violated-policies"][0]
        .as_str()
        .expect("a limit's name")
        .to_owned()
}

/// `q` and `w` of the one limit that a caller met.
fn policy(response: &Response) -> String {
    response.header("ratelimit-policy").to_owned()
}

#[test]
fn each_client_has_a_budget_of_its_own() {
    let (envoy, _comporta) = edge("envoy.yaml");
    let ana = [bearer("ana-free")];
    let ben = [bearer("ben-free")];

    let (first, refusal) = spend(10, Duration::from_secs(1), || envoy.get("/v1/items", &ana));
    assert_eq!(
        (first.status, first.body.as_str()),
        (200, "hello ana, plan free\n")
    );
    assert_eq!(first.header("ratelimit"), "\"client/plan\";r=9;t=1");
    assert_eq!(policy(&first), "\"client/plan\";q=60;w=60");

    assert_eq!(refused_by(&refusal), "client/plan");

    let bens_first = envoy.get("/v1/items", &ben);
    assert_eq!(bens_first.status, 200);
    assert_eq!(bens_first.header("ratelimit"), "\"client/plan\";r=9;t=1");
}

#[test]
fn a_plan_is_what_the_token_says() {
    let (envoy, _comporta) = edge("envoy.yaml");
    for (token, client, policy_of_it) in [
        ("cleo-pro", "hello cleo, plan pro\n", "\"client/plan\";q=600;w=60"),
        // Neither a missing plan nor one that nobody has heard of is a way around the limit.
        (
            "dora-no-plan",
            "hello dora, plan none\n",
            "\"client/plan\";q=60;w=60",
        ),
        ("number", "hello 42, plan 7\n", "\"client/plan\";q=60;w=60"),
    ] {
        let response = envoy.get("/v1/items", &[bearer(token)]);
        assert_eq!((response.status, response.body.as_str()), (200, client));
        assert_eq!(policy(&response), policy_of_it, "{token}");
    }
}

#[test]
fn an_expensive_route_does_not_touch_the_cheap_ones() {
    let (envoy, _comporta) = edge("envoy.yaml");
    let ana = [bearer("ana-free")];

    let (_, refusal) = spend(1, Duration::from_secs(30), || envoy.get("/v1/exports", &ana));
    assert_eq!(refused_by(&refusal), "client/route_class=expensive/plan");

    let cheap = envoy.get("/v1/items", &ana);
    assert_eq!(cheap.status, 200);
    assert_eq!(cheap.header("ratelimit"), "\"client/plan\";r=9;t=1");
}

#[test]
fn another_spelling_of_an_expensive_route_is_as_expensive() {
    let (envoy, _comporta) = edge("envoy.yaml");
    let ana = [bearer("ana-free")];
    for path in [
        "/v1//exports",
        "/v1/./exports",
        "/v1/x/../exports",
        "/v1/%65xports",
        "/v1/exports;x=y",
        "/v1/exports/7",
    ] {
        let response = envoy.get(path, &ana);
        assert_eq!(
            policy(&response),
            "\"client/route_class=expensive/plan\";q=2;w=60",
            "{path}"
        );
    }
    assert_eq!(envoy.get("/v1%2Fexports", &ana).status, 307);
}

#[test]
fn callers_without_identity_share_the_budget_of_their_address() {
    let (envoy, _comporta) = edge("envoy.yaml");
    let mut count = 0;
    let (_, refusal) = spend(5, Duration::from_secs(3), || {
        count += 1;
        // None of these is a way to another budget.
        let address = format!("203.0.113.{count}");
        let name = format!("client-{count}");
        envoy.get(
            "/",
            &[
                ("x-forwarded-for", address.as_str()),
                ("x-envoy-external-address", &address),
                ("x-client", &name),
                ("x-plan", "enterprise"),
                ("x-comporta-client", &name),
                ("x-comporta-plan", "enterprise"),
            ],
        )
    });
    assert_eq!(refused_by(&refusal), "caller=anonymous/remote_address");
    // A client from the same address is not held to it.
    assert_eq!(envoy.get("/v1/items", &[bearer("ana-free")]).status, 200);
}

#[test]
fn guessing_tokens_is_paid_from_the_budget_of_the_address() {
    let (envoy, _comporta) = edge("envoy.yaml");
    let (name, ana) = bearer("ana-free");
    let mut count = 0;
    let (_, refusal) = spend(5, Duration::from_secs(3), || {
        count += 1;
        let response = match count % 4 {
            0 => envoy.get::<&str>("/v1/items", &[]),
            1 => envoy.get("/v1/items", &[bearer("expired")]),
            // The signature belongs to other words.
            2 => envoy.get("/v1/items", &[(name, ana.replacen(".eyJ", ".eyK", 1))]),
            _ => envoy.get("/v1/items", &[(name, format!("Bearer guess-{count}"))]),
        };
        assert!(matches!(response.status, 401 | 429), "{response:?}");
        response
    });
    assert_eq!(refused_by(&refusal), "caller=anonymous/remote_address");
}

#[test]
fn a_valid_token_that_names_nobody_is_nobody() {
    let (envoy, _comporta) = edge("envoy.yaml");
    for token in ["nobody", "empty"] {
        let response = envoy.get("/v1/items", &[bearer(token)]);
        assert_eq!(
            policy(&response),
            "\"caller=anonymous/remote_address\";q=20;w=60",
            "{token}"
        );
    }
}

#[test]
fn headers_of_ours_are_not_taken_from_callers() {
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    for (configuration, body) in [
        (
            "envoy.yaml",
            "hello %REQ(x-comporta-client)%, plan %REQ(x-comporta-plan)%",
        ),
        ("envoy-headers.yaml", "hello %REQ(x-client)%, plan %REQ(x-plan)%"),
    ] {
        // An upstream that tells what it sees.
        let envoy = Envoy::start_edited(configuration, &comporta, |configuration| {
            replace_once(
                &configuration,
                body,
                "%REQ(x-comporta-client)% %REQ(x-comporta-excess)% %REQ(x-comporta-)%",
            )
        });
        let response = envoy.get(
            "/",
            &[
                ("x-comporta-client", "ana"),
                ("X-Comporta-Client", "ben"),
                ("x-comporta-excess", "stale"),
                ("x-comporta-", "x"),
            ],
        );
        assert_eq!(
            (response.status, response.body.as_str()),
            (200, "- - -\n"),
            "{configuration}"
        );
    }
}

#[test]
fn clients_by_header() {
    let (envoy, _comporta) = edge("envoy-headers.yaml");
    let ana = [("x-client", "ana"), ("x-plan", "free")];
    let (_, refusal) = spend(10, Duration::from_secs(1), || envoy.get("/v1/items", &ana));
    assert_eq!(refused_by(&refusal), "client/plan");

    let ben = envoy.get("/v1/items", &[("x-client", "ben"), ("x-plan", "free")]);
    assert_eq!((ben.status, ben.body.as_str()), (200, "hello ben, plan free\n"));
    let pro = envoy.get("/v1/items", &[("x-client", "cleo"), ("x-plan", "pro")]);
    assert_eq!(policy(&pro), "\"client/plan\";q=600;w=60");
    let contract = envoy.get("/v1/items", &[("x-client", "acme"), ("x-plan", "whatever")]);
    assert_eq!(policy(&contract), "\"acme-contract\";q=20000;w=60");
    let no_plan = envoy.get("/v1/items", &[("x-client", "dora")]);
    assert_eq!(policy(&no_plan), "\"client/plan\";q=60;w=60");
    let nobody = envoy.get::<&str>("/v1/items", &[]);
    assert_eq!(policy(&nobody), "\"caller=anonymous/remote_address\";q=20;w=60");

    let (_, refusal) = spend(1, Duration::from_secs(30), || {
        envoy.get("/v1/exports", &[("x-client", "eve"), ("x-plan", "free")])
    });
    assert_eq!(refused_by(&refusal), "client/route_class=expensive/plan");
}

#[test]
fn odd_bytes_are_limited_like_any_other_name() {
    let (envoy, _comporta) = edge("envoy-headers.yaml");
    let long = vec![b'a'; 8000];
    for client in [
        b"".as_slice(),
        b"an\xff\xe1",
        "日本".as_bytes(),
        b"a,b={c}:*\"",
        &long,
    ] {
        let headers = [("x-client", client), ("x-plan", b"free")];
        let (_, refusal) = spend(10, Duration::from_secs(1), || envoy.get("/v1/items", &headers));
        assert_eq!(refused_by(&refusal), "client/plan");
    }
}

#[test]
fn two_instances_on_one_redis_admit_exactly_the_budget() {
    let redis = Redis::start();
    let policy = "
domain: edge
descriptors:
  - key: client
    descriptors:
      - key: plan
        rate_limit: { rate: 30/day, burst: 30 }
";
    let comportas = [(); 2].map(|()| Comporta::serve_strict(policy, &redis));
    for comporta in &comportas {
        comporta.wait_for_store("edge", "client=nobody,plan=free");
    }
    let envoys = comportas
        .each_ref()
        .map(|comporta| Envoy::start("envoy.yaml", comporta));

    for token in ["ana-free", "ben-free"] {
        let statuses = (0..80).map(|turn| envoys[turn % 2].get("/v1/items", &[bearer(token)]).status);
        let (admitted, refused): (Vec<_>, Vec<_>) = statuses.partition(|status| *status == 200);
        assert_eq!(admitted.len(), 30, "{token}");
        assert!(refused.iter().all(|status| *status == 429), "{refused:?}");
    }
}

#[test]
fn without_an_answer_the_gateway_does_as_it_is_told() {
    let mut comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    let denies = Envoy::start("envoy.yaml", &comporta);
    // As it is in the file.
    let allows = Envoy::start_edited("envoy.yaml", &comporta, |configuration| {
        replace_once(
            &configuration,
            "failure_mode_deny: true",
            "failure_mode_deny: false",
        )
    });
    comporta.kill();
    let ana = [bearer("ana-free")];
    assert_eq!(denies.get("/v1/items", &ana).status, 500);
    assert_eq!(allows.get("/v1/items", &ana).status, 200);
    assert_eq!(
        allows.counter("cluster.upstream.ratelimit.failure_mode_allowed"),
        1
    );
}
