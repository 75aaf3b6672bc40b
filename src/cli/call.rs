//! `comporta call`: asks a running server.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::args::CallArgs;
use super::descriptor::{self, TypedEntry};
use super::exit::Exit;
use crate::domain::descriptor::Descriptor;
use crate::domain::quantity::Hits;
use crate::domain::verdict::Verdict;
use crate::service::client::{Client, Reply, ReplyLimit, ReplyStatus};

/// Asks as `args` say, a line per descriptor and call to `out`. Refused is [`Exit::No`], also when only once of many.
///
/// # Errors
/// When `out` or `err` cannot be written to.
pub fn call(args: &CallArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<Exit> {
    let typed: Result<Vec<_>, _> = args
        .descriptors
        .iter()
        .map(|text| descriptor::parse(text))
        .collect();
    let typed = match typed {
        Ok(typed) => typed,
        Err(mistake) => {
            writeln!(err, "{mistake}")?;
            return Ok(Exit::Usage);
        }
    };
    let descriptors = descriptors(&typed, args.hits);
    if !has_port(&args.address) {
        writeln!(
            err,
            "`{}` has no port: write the server as 127.0.0.1:8081",
            args.address
        )?;
        return Ok(Exit::Usage);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut client = match runtime.block_on(Client::connect(&args.address)) {
        Ok(client) => client,
        Err(error) => return could_not_ask(&error, err),
    };
    let mut exit = Exit::Fine;
    for _ in 0..args.times {
        match runtime.block_on(client.ask(&args.domain, &descriptors)) {
            Ok(reply) => {
                show(args, &reply, out)?;
                if reply.verdict == Verdict::OverLimit {
                    exit = Exit::No;
                }
            }
            Err(error) => return could_not_ask(&error, err),
        }
    }
    Ok(exit)
}

/// Without one a URL would mean the port of the web, which is not what anybody meant here.
fn has_port(address: &str) -> bool {
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    address.contains("://") || matches!(port, Some(Ok(_)))
}

fn could_not_ask(error: &impl std::error::Error, err: &mut impl Write) -> io::Result<Exit> {
    writeln!(err, "{error}")?;
    Ok(Exit::Usage)
}

fn descriptors(typed: &[Vec<TypedEntry>], hits: Option<i64>) -> Vec<Descriptor<'_>> {
    let hits = match hits {
        None => Hits::Take(1),
        Some(hits) if hits < 0 => Hits::give_back(hits.unsigned_abs()),
        Some(hits) => Hits::take(hits.unsigned_abs()),
    };
    typed
        .iter()
        .map(|typed| Descriptor {
            entries: descriptor::entries(typed).collect(),
            hits,
            limit: None,
        })
        .collect()
}

fn show(args: &CallArgs, reply: &Reply, out: &mut impl Write) -> io::Result<()> {
    if args.json {
        return writeln!(out, "{}", as_json(&args.descriptors, reply));
    }
    for (descriptor, status) in args.descriptors.iter().zip(&reply.statuses) {
        writeln!(out, "{}", as_line(descriptor, status, reply))?;
    }
    out.flush()
}

/// `ok    client=acme,plan=pro  599 of 600 per minute left (client/plan), whole again in 1 s`
///
/// A refusal that says no time at all is one that waiting does not help. A limit that is spent refuses nothing where it is
/// only watched, or where another one has room and that is enough.
fn as_line(descriptor: &str, status: &ReplyStatus, reply: &Reply) -> String {
    let verdict = word(status.verdict);
    let Some(limit) = &status.limit else {
        let why = match (status.verdict, status.reset_secs) {
            (Verdict::UnderLimit, _) => String::from("no limit"),
            (Verdict::OverLimit, None) => String::from("its limit cannot be checked now"),
            (Verdict::OverLimit, Some(seconds)) => {
                format!("less than usual passes now, try again in {seconds} s")
            }
        };
        return format!("{verdict:<4}  {descriptor}  {why}");
    };
    let seconds = status.reset_secs.unwrap_or_default();
    let when = match status.verdict {
        Verdict::UnderLimit => format!("whole again in {seconds} s"),
        Verdict::OverLimit if reply.verdict == Verdict::UnderLimit => String::from("but the call passes"),
        Verdict::OverLimit if reply.says_when() => format!("try again in {seconds} s"),
        // Who refuses without a body, as by `compat: reference`, says nothing else about when.
        Verdict::OverLimit if reply.body.is_empty() => format!("starts afresh in {seconds} s"),
        Verdict::OverLimit => String::from("waiting does not help"),
    };
    let (remaining, count, period, name) = (status.remaining, limit.count, period(limit), &limit.name);
    format!("{verdict:<4}  {descriptor}  {remaining} left of {count} per {period} ({name}), {when}")
}

fn period(limit: &ReplyLimit) -> String {
    match limit.multiplier {
        1 => limit.unit.clone(),
        many => format!("{many} {}s", limit.unit),
    }
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::UnderLimit => "ok",
        Verdict::OverLimit => "over",
    }
}

fn as_json(descriptors: &[String], reply: &Reply) -> Value {
    let statuses = descriptors
        .iter()
        .zip(&reply.statuses)
        .map(|(descriptor, status)| {
            json!({
                "descriptor": descriptor,
                "verdict": word(status.verdict),
                "limit": status.limit.as_ref().map(|limit| json!({
                    "name": limit.name,
                    "requests_per_unit": limit.count,
                    "unit": limit.unit,
                    "unit_multiplier": limit.multiplier,
                })),
                "remaining": status.remaining,
                "reset": status.reset_secs,
            })
        });
    let headers: Map<_, _> = reply
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    json!({
        "verdict": word(reply.verdict),
        "statuses": statuses.collect::<Vec<_>>(),
        "headers": headers,
        // What is no JSON is shown as text.
        "body": serde_json::from_str(&reply.body).unwrap_or_else(|_| json!(reply.body)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(verdict: Verdict, multiplier: u32) -> ReplyStatus {
        ReplyStatus {
            verdict,
            limit: Some(ReplyLimit {
                name: "client/plan".into(),
                count: 60,
                unit: "minute".into(),
                multiplier,
            }),
            remaining: 0,
            reset_secs: Some(12),
        }
    }

    fn reply(verdict: Verdict, headers: &[(&str, &str)], body: &str) -> Reply {
        Reply {
            verdict,
            statuses: Vec::new(),
            headers: headers
                .iter()
                .map(|&(name, value)| (name.into(), value.into()))
                .collect(),
            body: body.into(),
        }
    }

    #[test]
    fn an_address_needs_its_port() {
        for address in ["localhost:8081", "[::1]:8081", "http://limits"] {
            assert!(has_port(address), "{address}");
        }
        for address in ["localhost", "::", "[::1]", "localhost:", "localhost:grpc", ""] {
            assert!(!has_port(address), "{address}");
        }
    }

    #[test]
    fn a_line_tells_what_refuses_from_what_only_would() {
        let spent = status(Verdict::OverLimit, 1);
        for (reply, when) in [
            (
                reply(Verdict::OverLimit, &[("retry-after", "13")], "{}"),
                "try again in 12 s",
            ),
            (reply(Verdict::OverLimit, &[], "{}"), "waiting does not help"),
            (reply(Verdict::OverLimit, &[], ""), "starts afresh in 12 s"),
            (reply(Verdict::UnderLimit, &[], ""), "but the call passes"),
        ] {
            assert_eq!(
                as_line("client=a", &spent, &reply),
                format!("over  client=a  0 left of 60 per minute (client/plan), {when}")
            );
        }
    }

    #[test]
    fn a_line_says_what_is_left_and_when_there_is_more() {
        let reply = reply(Verdict::OverLimit, &[("retry-after", "13")], "{}");
        let check =
            |status: &ReplyStatus, expected: &str| assert_eq!(as_line("client=a", status, &reply), expected);
        check(
            &status(Verdict::OverLimit, 1),
            "over  client=a  0 left of 60 per minute (client/plan), try again in 12 s",
        );
        check(
            &status(Verdict::UnderLimit, 15),
            "ok    client=a  0 left of 60 per 15 minutes (client/plan), whole again in 12 s",
        );
        check(
            &ReplyStatus {
                limit: None,
                ..status(Verdict::UnderLimit, 1)
            },
            "ok    client=a  no limit",
        );
        check(
            &ReplyStatus {
                limit: None,
                ..status(Verdict::OverLimit, 1)
            },
            "over  client=a  less than usual passes now, try again in 12 s",
        );
        check(
            &ReplyStatus {
                limit: None,
                reset_secs: None,
                ..status(Verdict::OverLimit, 1)
            },
            "over  client=a  its limit cannot be checked now",
        );
    }

    #[test]
    fn json_holds_all_that_was_answered() {
        let reply = Reply {
            verdict: Verdict::OverLimit,
            statuses: vec![status(Verdict::OverLimit, 1)],
            headers: vec![("retry-after".into(), "12".into())],
            body: r#"{"title":"Quota exceeded"}"#.into(),
        };
        let shown = as_json(&["client=a".into()], &reply);
        assert_eq!(shown["verdict"], "over");
        assert_eq!(shown["statuses"][0]["limit"]["name"], "client/plan");
        assert_eq!(shown["headers"]["retry-after"], "12");
        assert_eq!(shown["body"]["title"], "Quota exceeded");
    }
}
