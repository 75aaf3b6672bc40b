//! How a limiter answers, where that is no matter of the policy.

use super::field::DraftNames;
use super::headers::HeaderStyle;
use crate::domain::check::{Binding, OnStoreFailure};

/// How a limiter answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimiterOptions {
    /// Which headers speak of the budget, where that was said: else those of the newer draft, and none in domains that
    /// are decided as the reference does.
    pub headers: Option<HeaderStyle>,
    /// What the headers of the older draft are called.
    pub names: DraftNames,
    /// What holds for every rule.
    pub modes: Modes,
    /// What becomes of calls that no policy is about.
    pub unknown_domain: UnknownDomain,
    /// What holds while the shared store cannot decide, for rules that do not say.
    pub on_store_failure: OnStoreFailure,
}

/// What becomes of a call whose domain no policy is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownDomain {
    /// It passes, is counted and warned about.
    #[default]
    Pass,
    /// It is an error as well: a gateway that is configured to fail closed then lets nothing pass unlimited.
    Error,
}

/// What holds for every rule, whatever the policy says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modes {
    /// Nothing is refused: statuses still say what would be.
    pub shadow: bool,
    /// Every rule that would refuse does so only together with all others that the request meets.
    pub quota: bool,
}

impl Modes {
    /// Whether a check that the policy binds so can refuse its request.
    pub(super) const fn bind(self, binding: Binding) -> Binding {
        match binding {
            _ if self.shadow => Binding::Never,
            Binding::Always if self.quota => Binding::WithAllQuotas,
            binding => binding,
        }
    }
}
