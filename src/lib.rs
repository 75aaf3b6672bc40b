//! Comporta decides whether a request may pass: gateways ask it over gRPC (Envoy's rate limit service, RLS v3), it
//! answers from a YAML policy and counters, and the gateways keep no state.
//!
//! A limit is an allocation: every caller has a budget of its own. Exceeding it costs that caller alone.
//!
//! # Layers
//!
//! Imports point only down this list; a request travels up and down it once. `policy` and `decide` are siblings and
//! never meet. A test (`tests/it/architecture.rs`) holds the arrows and the crates that each layer may use.
//!
//! | layer | what it holds |
//! |---|---|
//! | [`cli`] | arguments and settings, the composition root, the commands |
//! | [`telemetry`] | metrics and logs: implements what the layers below want observed |
//! | [`service`] | the use case without a transport (`limiter`), the wire (`rls`, `decode`, `encode`), reloads, admin, the server |
//! | [`proto`] | the wire types, generated |
//! | [`store`] | the seam `Store`, counter keys, the embedded store, Redis, the fallback, what is known to be refused |
//! | [`decide`] | the algorithms as pure functions, and how a group of checks is decided and charged |
//! | [`policy`] | YAML to a compiled, immutable set of rules; matching |
//! | [`clock`] | the one place that reads the time of day |
//! | [`domain`] | the words of all the others |
//!
//! `lua/` holds the twin of [`decide`], put together into the one script that Redis runs.
//!
//! # A request's way
//!
//! `service::rls` reads a question in the usual shape through `service::unary` and `service::decode` into a
//! [`domain::descriptor::Request`]; in any other shape the generated service brings it to the same place. `service::limiter`
//! reads the clock once, lets [`policy`] find the rule of each descriptor, writes counter keys and asks the store to
//! decide one group of checks. The store runs [`decide::group`] over what its counters hold, Redis by way of the
//! script. Decisions become an answer, which `service::encode` writes straight into what is sent.
//!
//! # What must stay true
//!
//! 1. `domain`, `policy` and `decide` do no I/O, are not async and read no clock. Time is an argument.
//! 2. Lua and Rust decide alike, bit for bit, on the same state, hits and time. The script never raises, whatever lies
//!    in its keys.
//! 3. Never more is admitted than the algorithm promises, on any interleaving, on any store. A layer that relaxes it
//!    states its bound. Across failures and edits: one budget more per loss of the store's memory, per change into
//!    degraded mode, and per edit that starts a counter afresh.
//! 4. A refused group charges nothing, but for what is charged whatever the verdict, calls whose outcome is unknown, and
//!    what others can see between the parts of a group in several slots of a cluster.
//! 5. Counter keys are injective. No state lives without an end.
//! 6. The path of a request takes no lock that all share, does no blocking I/O, logs nothing below warnings and
//!    allocates next to nothing.
//! 7. Wire types stop at `service/decode.rs`, `service/encode.rs` and `service/json.rs`, for `call` at `service/client.rs`,
//!    and for `bench` at `service/asker.rs` and `service/baseline.rs`; the crates for Redis stop at `store/redis/`.
//! 8. Nothing that a caller sends becomes a metric's label, a log line above debug or an unescaped header. Only a policy
//!    that says `value_to_metric` or `detailed_metric` makes labels of values, and each core of no more than a thousand in a
//!    domain.
//!
//! # Decided here
//!
//! * Calls are tasks of their own, also where nothing is waited for: answered in the connection's task, each answer would be
//!   written by itself, a system call for every one.
//! * The script answers with what lay in the counters, and the Rust twin makes verdicts and figures from that: the
//!   script needs only to know what fits, so it stays cheap, and there is one place that makes a decision.
//! * Counts are held up to 2^40 - 1, so that a fixed window's state is twelve bytes and a sliding window's seventeen.
//! * A limit of zero is decided without its counter: nothing is ever in it.
//! * Under `--shadow` every check is weighed and charged as one that cannot refuse. Statuses say what it would do,
//!   headers do not: a caller is not told to hold back for a limit that nobody holds it to. Under `compat` headers stay,
//!   as the reference has them.
//! * Under `compat` a limit that a request brings along takes nothing over from the rule, as in the reference; else it
//!   keeps what the rule says beside its limit.
//! * `/json` does not take hits that are given back: to the reference the field is unknown there.
//! * A leaky bucket can owe its queue and, behind it, the largest call: less would forget a part of such a call and
//!   release the next one too early.
//! * A refusal by the shared store is remembered and answered from memory until the call would pass ([`store::refused`]).
//!   The request's other checks are then not looked at: their descriptors show OK without a limit, give no metadata and
//!   count for nothing in metrics.
//! * A reload compares the bytes of all files, in their order: what says the same is no reload. Folders are watched and,
//!   for what a watch cannot see, files are looked at every ten seconds. A folder of several files that has lost one is a
//!   set like any other; one that has lost all is not.
//! * What starts afresh at a reload is found by comparing counter keys, so that it cannot differ from what stores do.
//! * Old policies are freed by whoever replaced them, once no call is under them: a large set takes a while to go.
//! * A bucket that holds more than a lowered limit allows is cut off before it drains, not after: a caller that is
//!   refused leaves no trace, and must not be told the same wait again and again.
//! * Policy tests (`cli::scenario`) run the use case itself on the embedded store. Their times are exact, where answers
//!   on the wire round up to whole seconds; each test starts with 2026, where all windows but weeks begin.
//! * A key that one node calls `secret` is so in its whole domain, also in the counters of limits that a request brings
//!   along where no rule is. Its values are left out of rules' paths: rules that only they set apart share one in metrics.
//! * `shard_by` leaves the domain between the braces, in front of the one entry: a client's counters share a slot within
//!   a domain, and clients of the same name in two domains need not.
//! * A sliding log read by a clock that was set back counts marks of the future as made now.
//! * While the shared store cannot decide, a check that `on_store_failure` denies stands in its group as a limit of zero, and
//!   one that it allows not at all, but that it keeps other quotas from refusing. So the embedded store decides what is
//!   left as any group, and a denied request charges nothing. A limit of zero needs no store: it refuses whatever the
//!   choice.
//! * Across an outage, what the shared store admits keeps a limit's promise over any interval, and what each instance admits
//!   by itself keeps that of its share. Together they can admit more than one budget on top of the promise where much comes
//!   back in the time: both refill, and while only some instances are cut off, both serve.
//! * A cluster is routed here and not by its library: each node has a breaker of its own, and nothing is sent again but what
//!   a node says that it has not run. A group of which one part refuses is refused, also where another part failed; where
//!   none refuses and one failed, what the others took is taken back and the group counts as failed.
//! * What is given back between parts names the moment it was taken: a window that has ended, or a mark that newer ones
//!   stand on, is left as it is.
//! * A caller that waits less than a call may take says nothing about the store by going away: its calls are decided without
//!   the store, and are no outage.
//! * The ceiling of a process without its store counts requests and not hits, for it protects what is behind. It is one
//!   more check of the group, so what is refused takes no room below it; a look sees it and takes none.
//! * What refuses a caller for want of the store is a problem of the type `temporary-reduced-capacity`, without the figures
//!   and the advice of the limit, for nobody knows whether that is spent. Beside a limit that is, `Retry-After` is the wait
//!   that is known.
//! * An `error` counts for rules that are only watched, too, as it is no verdict: a policy, or flags, that say both earn a
//!   warning.
//! * One outage is one event for the whole process, whichever core meets it. It ends when the store has not failed for a
//!   second, so at the first call after that.
//! * State that a clock set back has left in the future is written again as of now by whatever meets it, a refusal or a
//!   look included: left alone, a spent counter would stand still until the clock has caught up.

pub mod cli;
pub mod clock;
pub mod decide;
pub mod domain;
pub mod policy;
pub mod proto;
pub mod service;
pub mod store;
pub mod telemetry;
