use proptest::prelude::*;
use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::json;
use smallvec::{SmallVec, smallvec};

use super::*;
use crate::domain::limit::Period;
use crate::domain::time::Micros;
use crate::service::answer::Cause;
use crate::service::field::FieldName;

#[test]
fn writes_every_part_of_an_answer() {
    let answer = Answer {
        verdict: Verdict::OverLimit,
        cause: Cause::OverLimit,
        rule: Some(Arc::from("client/plan")),
        deciding: Some(0),
        degraded: true,
        statuses: smallvec![
            Status {
                verdict: Verdict::OverLimit,
                limit: Some(ShownLimit {
                    name: Arc::from("client/plan"),
                    count: 100,
                    period: Period {
                        unit: Unit::Minute,
                        multiplier: 15
                    },
                }),
                remaining: 0,
                retry_after: Some(Micros::new(8_100_000)),
                reset_after: Some(Micros::MINUTE),
            },
            Status::UNLIMITED,
        ],
        metadata: SmallVec::new(),
        uncounted: SmallVec::new(),
        headers: smallvec![Header {
            name: FieldName::ours("retry-after"),
            value: "9".to_owned()
        }],
        body: Some("{}".to_owned()),
    };
    let wire = message(&answer);
    assert_eq!(wire.overall_code(), Code::OverLimit);
    let first = &wire.statuses[0];
    assert_eq!((first.code(), first.limit_remaining), (Code::OverLimit, 0));
    assert_eq!(
        first.duration_until_reset.map(|duration| duration.seconds),
        Some(9)
    );
    let limit = first.current_limit.as_ref().expect("a limit");
    assert_eq!(
        (limit.unit(), limit.unit_multiplier, limit.requests_per_unit),
        (WireUnit::Minute, Some(15), 100)
    );
    let second = &wire.statuses[1];
    assert_eq!((second.code(), second.limit_remaining), (Code::Ok, u32::MAX));
    assert!(second.current_limit.is_none() && second.duration_until_reset.is_none());
    assert_eq!(wire.response_headers_to_add[0].key, "retry-after");
    assert_eq!(wire.raw_body, "{}");
    let metadata = wire.dynamic_metadata.expect("metadata").fields;
    assert_eq!(
        metadata.keys().collect::<Vec<_>>(),
        ["cause", "degraded", "rule", "verdict"]
    );
}

#[test]
fn an_answer_is_never_an_empty_message() {
    let wire = message(&Answer::untouched(Cause::NoRule, 1));
    assert_eq!(wire.overall_code(), Code::Ok);
    let mut written = Vec::new();
    response(&Answer::untouched(Cause::NoRule, 1), &mut written);
    assert_eq!(written[..2], [8, 1]);
}

/// What a struct holds, as JSON.
fn as_json(of: &Struct) -> Json {
    let members = of.fields.iter().map(|(name, value)| {
        let value = value.kind.as_ref().expect("a value");
        (name.clone(), kind_as_json(value))
    });
    members.collect()
}

fn kind_as_json(kind: &Kind) -> Json {
    match kind {
        Kind::NullValue(_) => Json::Null,
        Kind::NumberValue(number) => json!(number),
        Kind::StringValue(text) => json!(text),
        Kind::BoolValue(yes) => json!(yes),
        Kind::StructValue(members) => as_json(members),
        Kind::ListValue(list) => list
            .values
            .iter()
            .map(|value| kind_as_json(value.kind.as_ref().expect("a value")))
            .collect(),
    }
}

fn metadata(json: Json) -> Arc<Metadata> {
    match json {
        Json::Object(members) => Arc::new(members),
        other => panic!("{other} is no map"),
    }
}

#[test]
fn metadata_is_written_as_it_is_and_of_two_of_one_name_the_first() {
    let entry = |key: &[u8], value: &[u8]| ShownEntry {
        key: Box::from(key),
        value: Box::from(value),
    };
    let answer = Answer {
        metadata: smallvec![
            metadata(json!({"tier": "gold", "empty": "", "none": null, "no": false, "zero": 0.0})),
            metadata(json!({"tier": "free", "deep": {"list": [1.5, [], {"a": {}}, "x"]}})),
        ],
        uncounted: smallvec![
            entry(b"plan", b"gold"),
            entry(b"\xff", b"\xfe"),
            entry(b"\xfe", b"later")
        ],
        ..Answer::untouched(Cause::Unlimited, 1)
    };
    let read = as_json(&message(&answer).dynamic_metadata.expect("metadata"));
    let expected = json!({
        "verdict": "ok",
        "cause": "unlimited",
        "degraded": false,
        "metadata": {
            "tier": "gold", "empty": "", "none": null, "no": false, "zero": 0.0,
            "deep": {"list": [1.5, [], {"a": {}}, "x"]},
        },
        "uncounted": {"plan": "gold", "\u{fffd}": "\u{fffd}"},
    });
    assert_eq!(read, expected);
}

#[test]
fn the_deepest_metadata_can_be_read() {
    use crate::policy::metadata::DEEPEST;
    // Of lists and maps the latter take more levels of messages.
    let deepest = (0..DEEPEST).fold(json!(1), |inner, _| json!({ "a": inner }));
    let answer = Answer {
        metadata: smallvec![metadata(deepest.clone())],
        ..Answer::untouched(Cause::Unlimited, 1)
    };
    let read = as_json(&message(&answer).dynamic_metadata.expect("metadata"));
    assert_eq!(
        read["metadata"].to_string(),
        deepest.to_string().replace('1', "1.0")
    );
}

#[test]
fn codes_and_units_are_those_of_the_wire() {
    for (unit, number) in [
        (Unit::Second, 1),
        (Unit::Minute, 2),
        (Unit::Hour, 3),
        (Unit::Day, 4),
        (Unit::Month, 5),
        (Unit::Year, 6),
        (Unit::Week, 7),
    ] {
        assert_eq!(super::unit(unit), number, "{unit:?}");
    }
    assert_eq!([Verdict::UnderLimit, Verdict::OverLimit].map(code), [1, 2]);
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<f64>()
            .prop_filter("JSON has no others", |number| number.is_finite())
            .prop_map(Json::from),
        ".{0,200}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(".{0,20}", inner, 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_limit() -> impl Strategy<Value = ShownLimit> {
    let unit = prop::sample::select(vec![Unit::Second, Unit::Minute, Unit::Week, Unit::Year]);
    (".{0,300}", any::<u32>(), unit, 1..u32::MAX).prop_map(|(name, count, unit, multiplier)| ShownLimit {
        name: name.into(),
        count,
        period: Period { unit, multiplier },
    })
}

fn any_status() -> impl Strategy<Value = Status> {
    let wait = || prop::option::of(any::<u64>().prop_map(Micros::new));
    (
        any::<bool>(),
        prop::option::of(any_limit()),
        any::<u32>(),
        wait(),
        wait(),
    )
        .prop_map(|(over, limit, remaining, retry_after, reset_after)| Status {
            verdict: if over {
                Verdict::OverLimit
            } else {
                Verdict::UnderLimit
            },
            limit,
            remaining,
            retry_after,
            reset_after,
        })
}

proptest! {
    #[test]
    fn whatever_an_answer_holds_is_read_again(
        statuses in prop::collection::vec(any_status(), 0..20),
        values in prop::collection::vec("[ -~]{0,200}", 0..6),
        body in prop::option::of(".{1,300}"),
        said in prop::collection::btree_map(".{0,20}", any_json(), 1..4),
        rule in prop::option::of("[ -~]{0,300}"),
    ) {
        let answer = Answer {
            rule: rule.clone().map(Arc::from),
            statuses: statuses.clone().into(),
            headers: values.iter().map(|value| Header { name: FieldName::ours("x"), value: value.clone() }).collect(),
            body: body.clone(),
            metadata: smallvec![Arc::new(said.clone().into_iter().collect())],
            ..Answer::untouched(Cause::UnderLimit, 0)
        };
        let read = message(&answer);
        prop_assert_eq!(read.statuses.len(), statuses.len());
        for (read, status) in read.statuses.iter().zip(&statuses) {
            prop_assert_eq!(i64::from(read.code).cast_unsigned(), code(status.verdict));
            prop_assert_eq!(read.limit_remaining, status.remaining);
            let until_reset = read.duration_until_reset.map(|wait| wait.seconds.cast_unsigned());
            prop_assert_eq!(until_reset, status.reset_secs());
            let limit = read.current_limit.as_ref().map(|limit| {
                (&*limit.name, limit.requests_per_unit, i64::from(limit.unit).cast_unsigned(), limit.unit_multiplier.unwrap_or(1))
            });
            let expected = status.limit.as_ref().map(|limit| {
                (&*limit.name, limit.count, unit(limit.period.unit), limit.period.multiplier)
            });
            prop_assert_eq!(limit, expected);
        }
        let headers: Vec<_> = read.response_headers_to_add.iter().map(|header| header.value.clone()).collect();
        prop_assert_eq!(headers, values);
        prop_assert_eq!(read.raw_body, body.unwrap_or_default());
        let metadata = as_json(&read.dynamic_metadata.expect("metadata"));
        prop_assert_eq!(metadata["rule"].as_str(), rule.as_deref());
        prop_assert_eq!(&metadata["metadata"], &said.into_iter().collect::<Json>());
    }
}
