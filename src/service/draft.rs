//! From what a request's descriptors reach to the checks they want: limits of the policy or of the request, those that
//! others replace taken out, no counter asked twice.

use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock};

use hashbrown::{DefaultHashBuilder, HashMap};
use smallvec::{SmallVec, smallvec};

use super::answer::ShownEntry;
use super::options::Modes;
use super::plan::{Held, KeyBuffer, Plan, Planned, Reached};
use crate::domain::check::{Binding, Charge};
use crate::domain::descriptor::{Descriptor, Override};
use crate::domain::limit::{Algorithm, Limit, LimitSpec};
use crate::domain::quantity::Hits;
use crate::domain::time::Micros;
use crate::policy::{Counted, Found, Limits, Policy};
use crate::store::key::{Keys, Part, Realm};

/// Up to this many wanted checks are compared with each other rather than hashed.
const FEW: usize = 16;

/// A plan in the making: checks in the order of the request, counters perhaps named twice.
pub(super) struct Draft<'p, 'r> {
    realm: Realm<'r>,
    policy: &'p Policy,
    keys: &'r Keys,
    modes: Modes,
    buffer: KeyBuffer,
    wanted: SmallVec<[Planned<'p>; 2]>,
    uncounted: SmallVec<[ShownEntry; 1]>,
    /// How many descriptors came before.
    place: usize,
    by_value: Vec<(usize, String)>,
}

impl<'p, 'r> Draft<'p, 'r> {
    /// Nothing wanted yet, of so many descriptors.
    pub(super) fn new(
        domain: &'r [u8],
        descriptors: usize,
        policy: &'p Policy,
        keys: &'r Keys,
        modes: Modes,
    ) -> Self
    where
        'p: 'r,
    {
        Self {
            realm: Realm {
                domain,
                shard_by: policy.shard_by(),
            },
            policy,
            keys,
            modes,
            buffer: KeyBuffer::take(),
            wanted: SmallVec::with_capacity(descriptors),
            uncounted: SmallVec::new(),
            place: 0,
            by_value: Vec::new(),
        }
    }

    /// The plan, once every descriptor has reached what it does.
    pub(super) fn finish(mut self, mut reached: SmallVec<[Reached<'p>; 2]>) -> Plan<'p> {
        let compat = self.policy.compat();
        self.set_aside(&mut reached);
        let (checks, places) = arrange(self.wanted, &self.buffer, compat);
        for reached in &mut reached {
            if let Reached::Limited(_, wanted) = reached {
                wanted.iter_mut().for_each(|place| *place = places[*place]);
            }
        }
        Plan {
            keys: self.buffer,
            checks,
            reached,
            uncounted: self.uncounted,
            by_value: self.by_value,
            compat,
            shadow: self.modes.shadow,
        }
    }

    /// Wants the checks that `descriptor` asks for.
    pub(super) fn reach(&mut self, descriptor: &Descriptor<'_>) -> Reached<'p> {
        if descriptor.entries.is_empty() {
            self.place += 1;
            return Reached::Nothing;
        }
        let found = self.policy.find(&descriptor.entries);
        if let Some(found) = &found {
            let owned = |entry: &Counted<'_>| ShownEntry {
                key: Box::from(entry.key),
                value: Box::from(&*entry.value),
            };
            let shown = found.uncounted.iter().filter(|entry| !entry.secret);
            self.uncounted.extend(shown.map(owned));
            let path = found.rule.metric_path(&descriptor.entries);
            self.by_value.extend(path.map(|path| (self.place, path)));
        }
        self.place += 1;
        let limit = descriptor
            .limit
            .and_then(|limit| limit_of_request(limit, self.policy.compat()));
        if let Some(limit) = limit {
            return self.reach_override(descriptor, found.as_ref(), limit);
        }
        let Some(found) = &found else {
            return Reached::NoRule;
        };
        let Limits::Held(limits) = found.limits else {
            return Reached::Unlimited(found.rule);
        };
        let mut wanted = SmallVec::new();
        let nameless = self.policy.is_nameless(limits);
        for (place, limit) in limits.iter().enumerate() {
            let counted = found.counted.iter().map(part);
            let key = self.buffer.append(|into| {
                if nameless {
                    self.keys.write_nameless(into, self.realm, counted, limit);
                } else {
                    self.keys.write(into, self.realm, counted, limit);
                }
            });
            wanted.push(self.wanted.len());
            self.wanted.push(Planned {
                key,
                rule: found.rule,
                limit: Held::OfPolicy(limit),
                shadow: found.is_shadowed(place),
                binding: self.modes.bind(found.binding(place)),
                on_store_failure: found.rule.on_store_failure,
                hits: descriptor.hits.times(found.rule.cost),
            });
        }
        Reached::Limited(found.rule, wanted)
    }

    /// A request's own limit replaces all those of the rule, and holds where no rule is about the descriptor. Its
    /// counter is its own, so that it cannot disturb the rule's; only the reference shares it. There, what the rule
    /// says beside its limit holds no more, either: a rule that is only watched does not make the request's limit so.
    fn reach_override(
        &mut self,
        descriptor: &Descriptor<'_>,
        found: Option<&Found<'p, '_>>,
        limit: Limit,
    ) -> Reached<'p> {
        let compat = self.policy.compat();
        let rule = match found {
            Some(found) if !compat => found.rule,
            _ => self.policy.overrides(),
        };
        let counted: SmallVec<[Part<'_>; 4]> = match found {
            Some(found) if !(compat && shares_a_value(found, descriptor)) => {
                found.counted.iter().map(part).collect()
            }
            _ => descriptor
                .entries
                .iter()
                .map(|entry| Part {
                    key: entry.key,
                    value: entry.value,
                    secret: self.policy.is_secret(entry.key),
                })
                .collect(),
        };
        let counted = counted.iter().copied();
        let key = self.buffer.append(|into| {
            if compat {
                self.keys.write_nameless(into, self.realm, counted, &limit);
            } else {
                self.keys.write_override(into, self.realm, counted, &limit);
            }
        });
        self.wanted.push(Planned {
            key,
            rule,
            limit: Held::OfRequest(Box::new(limit)),
            shadow: rule.shadow_mode,
            binding: self.modes.bind(rule.binding),
            // The reference has no such choice that a limit of the request's own could set aside.
            on_store_failure: found.map_or(rule, |found| found.rule).on_store_failure,
            hits: descriptor.hits.times(rule.cost),
        });
        Reached::Limited(rule, smallvec![self.wanted.len() - 1])
    }

    /// Takes out the limits that rules of this request replace. What a replaced rule replaces is replaced all the same.
    fn set_aside(&mut self, reached: &mut [Reached<'p>]) {
        let replaced: SmallVec<[&str; 4]> = reached
            .iter()
            .filter_map(|reached| match reached {
                Reached::Limited(rule, _) | Reached::Unlimited(rule) => Some(rule.replaces()),
                _ => None,
            })
            .flat_map(|names| names.iter().map(AsRef::as_ref))
            .collect();
        if replaced.is_empty() {
            return;
        }
        let compat = self.policy.compat();
        let is_replaced = |check: &Planned<'_>| {
            // The reference knows no names but those that were given.
            (!compat || check.limit.is_named()) && replaced.contains(&check.limit.name().as_ref())
        };
        let mut kept = 0;
        let places: SmallVec<[Option<usize>; 4]> = self
            .wanted
            .iter()
            .map(|check| {
                let place = (!is_replaced(check)).then_some(kept);
                kept += usize::from(place.is_some());
                place
            })
            .collect();
        self.wanted.retain(|check| !is_replaced(check));
        for reached in reached {
            if let Reached::Limited(_, wanted) = reached {
                *wanted = wanted.iter().filter_map(|place| places[*place]).collect();
                if wanted.is_empty() {
                    *reached = Reached::Replaced;
                }
            }
        }
    }
}

/// Whether what `descriptor` reached counts a pattern in place of one of its values (`share_threshold`).
fn shares_a_value(found: &Found<'_, '_>, descriptor: &Descriptor<'_>) -> bool {
    let counted = found.counted.iter().zip(&descriptor.entries);
    found.counted.len() == descriptor.entries.len()
        && counted
            .into_iter()
            .any(|(counted, entry)| counted.value[..] != entry.value[..] && counted.value.contains(&b'*'))
}

fn part<'a>(entry: &'a Counted<'_>) -> Part<'a> {
    Part {
        key: entry.key,
        value: &entry.value,
        secret: entry.secret,
    }
}

/// A limit that a request brought along, counted in a sliding window, or as the reference counts.
fn limit_of_request(asked: Override, compat: bool) -> Option<Limit> {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("override"));
    Limit::new(LimitSpec {
        name: Arc::clone(&NAME),
        named: false,
        count: asked.count,
        period: asked.period,
        algorithm: if compat {
            Algorithm::FixedWindow
        } else {
            Algorithm::SlidingWindow
        },
        burst: None,
        delay: Micros::ZERO,
        calendar: !compat,
    })
    .ok()
}

/// Give-backs first, and what names the same counter decided once with the larger hits: asked twice, a caller would
/// be charged twice for one request. The reference does charge twice. Also tells for each wanted check where it went.
fn arrange<'p>(
    wanted: SmallVec<[Planned<'p>; 2]>,
    keys: &KeyBuffer,
    compat: bool,
) -> (SmallVec<[Planned<'p>; 2]>, SmallVec<[usize; 2]>) {
    if is_arranged(&wanted, keys, compat) {
        let places = (0..wanted.len()).collect();
        return (wanted, places);
    }
    let mut places: SmallVec<[usize; 2]> = smallvec![0; wanted.len()];
    let mut checks: SmallVec<[Planned<'p>; 2]> = SmallVec::with_capacity(wanted.len());
    let mut wanted: SmallVec<[_; 2]> = wanted.into_iter().enumerate().collect();
    if !compat {
        wanted.sort_by_key(|(_, check)| !check.gives_back());
    }
    let mut seen = HashMap::new();
    let many = wanted.len() > FEW;
    for (at, check) in wanted {
        if compat && check.rule.charge == Charge::Always {
            places[at] = checks.len();
            checks.push(check);
            continue;
        }
        let name = (check.gives_back(), keys.key(&check.key));
        let same = if many {
            seen.get(&name).copied()
        } else {
            checks
                .iter()
                .position(|other| (other.gives_back(), keys.key(&other.key)) == name)
        };
        places[at] = same.unwrap_or(checks.len());
        if let Some(place) = same {
            merge(&mut checks[place], check);
            continue;
        }
        if many {
            seen.insert(name, checks.len());
        }
        checks.push(check);
    }
    (checks, places)
}

/// Whether nothing is left to arrange, which is usual. Keys are long and alike, so what is compared is their hashes: two
/// that are the same only mean to look closer.
fn is_arranged(wanted: &[Planned<'_>], keys: &KeyBuffer, compat: bool) -> bool {
    if wanted.len() < 2 {
        return true;
    }
    if wanted.len() > FEW || !compat && wanted.iter().any(Planned::gives_back) {
        return false;
    }
    let hasher = DefaultHashBuilder::default();
    let hashes: SmallVec<[u64; FEW]> = wanted
        .iter()
        .map(|check| hasher.hash_one(keys.key(&check.key)))
        .collect();
    let is_alone = |place: usize| !hashes[..place].contains(&hashes[place]);
    (1..hashes.len()).all(is_alone)
}

/// One counter asked twice is asked for the larger hits. Where a gateway sends one client under two plans, the
/// smaller of the two budgets holds; a rule that is only watched never stands in for one that is enforced.
fn merge<'p>(into: &mut Planned<'p>, check: Planned<'p>) {
    let hits = match (into.hits, check.hits) {
        (Hits::Take(one), Hits::Take(other)) => Hits::Take(one.max(other)),
        (Hits::GiveBack(one), Hits::GiveBack(other)) => Hits::GiveBack(one.max(other)),
        (Hits::Look(one), Hits::Look(other)) => Hits::Look(one.max(other)),
        (Hits::Look(_), other) => other,
        (one, _) => one,
    };
    if strictness(&check) < strictness(into) {
        *into = check;
    }
    into.hits = hits;
}

/// Orders checks of one counter: those that can refuse first, then by what they hold and how fast it comes back.
fn strictness(check: &Planned<'_>) -> (bool, u32, u128) {
    let rate = check.limit.rate();
    // Rates have at most 32 and 49 bits: shifted, their quotients are told apart.
    let pace = (u128::from(rate.hits) << 64) / u128::from(rate.micros);
    (check.binding == Binding::Never, check.limit.capacity(), pace)
}
