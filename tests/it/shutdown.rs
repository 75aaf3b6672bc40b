//! From SIGTERM to the end, without an error for anybody.

use tonic_health::pb::health_check_response::ServingStatus;

use crate::harness::comporta::Comporta;
use crate::harness::envoy::Envoy;
use crate::harness::http;
use crate::harness::process::poll;
use crate::harness::{bearer, repository};

const SERVICES: [&str; 3] = ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"];

fn serve(flags: &[&str]) -> Comporta {
    Comporta::serve(repository("deploy/policy.yaml"), flags)
}

#[test]
fn it_is_healthy_once_a_policy_is_in() {
    let comporta = serve(&[]);
    let client = comporta.client();
    for service in SERVICES {
        assert_eq!(
            client.health(service).expect("an answer"),
            ServingStatus::Serving,
            "{service}"
        );
    }
    assert_eq!(
        client.health("another").expect_err("unknown").code(),
        tonic::Code::NotFound
    );
    assert_eq!(http::get::<&str>(comporta.admin(), "/live", &[]).status, 200);
    assert_eq!(http::get::<&str>(comporta.admin(), "/ready", &[]).status, 200);
}

#[test]
fn calls_during_the_drain_are_answered() {
    let mut comporta = serve(&["--drain", "3s"]);
    let old = comporta.client();
    comporta.terminate();
    poll("the end of being ready", || {
        (http::get::<&str>(comporta.admin(), "/ready", &[]).status == 503).then_some(())
    });
    for service in SERVICES {
        assert_eq!(
            old.health(service).expect("an answer"),
            ServingStatus::NotServing,
            "{service}"
        );
    }
    assert_eq!(http::get::<&str>(comporta.admin(), "/live", &[]).status, 200);
    // A gateway that has not noticed yet, and one that even connects now.
    assert!(old.admits("edge", "client=ana,plan=free"));
    assert!(comporta.client().admits("edge", "client=ana,plan=free"));
    // Between questions this client does not listen, so it would not hear that it should go.
    drop(old);
    assert_eq!(comporta.wait().code(), Some(0));
}

#[test]
fn a_gateway_sees_no_error_when_one_instance_makes_way_for_another() {
    // Envoy finds both behind one name; here both are in its list from the start.
    let mut leaving = serve(&["--drain", "1s"]);
    let staying = serve(&[]);
    let envoy = Envoy::start_edited("envoy.yaml", &leaving, |configuration| {
        with_health_check(&with_second_host(&configuration, &leaving, &staying))
    });
    let pro = [bearer("cleo-pro")];
    let ask = || assert_ne!(envoy.get("/v1/items", &pro).status, 500, "{}", envoy.printed());
    for _ in 0..20 {
        ask();
    }
    leaving.terminate();
    poll("the end of the instance", || {
        ask();
        http::try_get::<&str>(leaving.admin(), "/live", &[])
            .is_err()
            .then_some(())
    });
    assert_eq!(leaving.wait().code(), Some(0));
    for _ in 0..20 {
        ask();
    }
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
}

#[test]
fn a_gateway_sees_no_error_when_its_connection_has_become_old() {
    let comporta = serve(&["--connection-age", "100ms"]);
    let envoy = Envoy::start("envoy.yaml", &comporta);
    let pro = [bearer("cleo-pro")];
    poll("the fifth connection", || {
        assert_ne!(envoy.get("/v1/items", &pro).status, 500, "{}", envoy.printed());
        (envoy.counter("cluster.comporta.upstream_cx_total") >= 5).then_some(())
    });
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
    assert_ne!(envoy.counter("cluster.upstream.ratelimit.ok"), 0);
}

fn with_second_host(configuration: &str, first: &Comporta, second: &Comporta) -> String {
    let endpoint = |comporta: &Comporta| {
        let port = comporta.grpc().rsplit(':').next().expect("a port");
        format!(
            "              - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}\n"
        )
    };
    let first = endpoint(first);
    assert!(configuration.contains(&first), "no {first} in {configuration}");
    configuration.replace(&first, &format!("{first}{}", endpoint(second)))
}

fn with_health_check(configuration: &str) -> String {
    crate::harness::envoy::replace_once(
        configuration,
        "      load_assignment:\n        cluster_name: comporta\n",
        "      health_checks:
        - timeout: 60s
          interval: 0.1s
          no_traffic_interval: 0.1s
          unhealthy_threshold: 1
          healthy_threshold: 1
          grpc_health_check: { service_name: ratelimit }
      load_assignment:
        cluster_name: comporta\n",
    )
}
