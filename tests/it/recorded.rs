//! What a real Envoy 1.40 sent, byte for byte, and what it means.

use comporta::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use comporta::proto::envoy::r#type::v3::RateLimitUnit;
use prost::Message;

use crate::harness::comporta::{Comporta, admitted, request};
use crate::harness::repository;

fn recorded(name: &str) -> RateLimitRequest {
    let path = repository(&format!("tests/data/envoy/{name}.bin"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    RateLimitRequest::decode(bytes.as_slice()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_client_and_its_plan() {
    assert_eq!(
        recorded("client-plan"),
        request("edge", &["client=ana,plan=free"])
    );
}

#[test]
fn nobody_we_know() {
    assert_eq!(
        recorded("anonymous"),
        request("edge", &["caller=anonymous,remote_address=127.0.0.1"])
    );
}

#[test]
fn an_empty_header_is_an_empty_value() {
    assert_eq!(
        recorded("empty-value"),
        request("edge", &["client=,route_class=expensive,plan=none"])
    );
}

#[test]
fn a_header_that_is_not_utf8_arrives_as_it_is() {
    let mut expected = request("edge", &["client=?,plan=pro"]);
    expected.descriptors[0].entries[0].value = b"an\xff\xe1".as_slice().into();
    assert_eq!(recorded("not-utf8"), expected);
}

#[test]
fn hits_of_the_request_and_of_descriptors_and_an_override() {
    let names = [
        "look=x,remote_address=127.0.0.1",
        "take=7",
        "back=2",
        "override=a",
        "plain=a",
    ];
    let mut expected = request("edge", &names);
    expected.hits_addend = 3;
    // A zero that is present, and so not the same as none.
    expected.descriptors[0].hits_addend = Some(0);
    expected.descriptors[1].hits_addend = Some(7);
    expected.descriptors[2].hits_addend = Some(2);
    expected.descriptors[2].is_negative_hits = true;
    let limit = expected.descriptors[3].limit.get_or_insert_default();
    limit.requests_per_unit = 0;
    limit.set_unit(RateLimitUnit::Month);
    assert_eq!(recorded("hits-and-override"), expected);
}

#[test]
fn all_of_them_are_answered_and_odd_ones_are_limited_like_any_other() {
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    let client = comporta.client();
    for (name, limits) in [
        ("client-plan", [Some("client/plan")].as_slice()),
        ("anonymous", &[Some("caller=anonymous/remote_address")]),
        ("empty-value", &[Some("client/route_class=expensive/plan")]),
        ("not-utf8", &[Some("client/plan")]),
        // It brings a limit of zero along.
        ("hits-and-override", &[None, None, None, Some("override"), None]),
    ] {
        let answer = client.send(recorded(name)).expect("an answer");
        assert_eq!(admitted(&answer), name != "hits-and-override", "{name}");
        let names = answer
            .statuses
            .iter()
            .map(|status| status.current_limit.as_ref().map(|limit| &*limit.name));
        assert_eq!(names.collect::<Vec<_>>(), limits, "{name}");
    }
}

#[test]
fn what_asks_nothing_is_an_error() {
    // An answer would say that the request may pass.
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    let client = comporta.client();
    for question in [
        request("", &["client=ana"]),
        request("edge", &[]),
        RateLimitRequest::default(),
    ] {
        let error = client.send(question).expect_err("no question");
        assert_eq!(error.code(), tonic::Code::InvalidArgument, "{error:?}");
    }
}
