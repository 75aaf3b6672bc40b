//! Names of HTTP fields: ours, and those that an operator chooses.

use std::fmt;
use std::sync::Arc;

/// The name of an HTTP field. Gateways go by it in any case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldName(Name);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Ours(&'static str),
    Chosen(Arc<str>),
}

/// No name that a field can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of an HTTP header: letters, digits and !#$%&'*+-.^_`|~ make one")]
pub struct NoFieldName(String);

impl FieldName {
    /// A name that is known to be one.
    pub const fn ours(name: &'static str) -> Self {
        Self(Name::Ours(name))
    }

    /// A name that somebody chose. It is kept as it is written.
    ///
    /// # Errors
    /// When no field can be called that.
    pub fn parse(text: &str) -> Result<Self, NoFieldName> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(is_token) {
            return Err(NoFieldName(text.escape_debug().to_string()));
        }
        Ok(Self(Name::Chosen(Arc::from(text))))
    }

    /// The name as it is sent.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Ours(name) => name,
            Name::Chosen(name) => name,
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<&str> for FieldName {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// What the three headers of the older draft are called, where somebody chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftNames {
    /// In place of `RateLimit-Limit`.
    pub limit: Option<FieldName>,
    /// In place of `RateLimit-Remaining`.
    pub remaining: Option<FieldName>,
    /// In place of `RateLimit-Reset`.
    pub reset: Option<FieldName>,
}

impl DraftNames {
    /// Whether any was chosen.
    pub const fn are_chosen(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some() || self.reset.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_written_and_what_is_none_is_refused() {
        for name in ["A-Ratelimit-Limit", "x", "!#$%&'*+-.^_`|~09"] {
            assert_eq!(FieldName::parse(name).expect("a name"), name);
        }
        for wrong in ["", "a b", ":path", "größe", "a\r\nb", "a:"] {
            let refused = FieldName::parse(wrong).expect_err("no name").to_string();
            assert!(!refused.contains('\n'), "{refused}");
        }
    }
}
