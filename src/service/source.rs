//! Where policies come from, as the reload sees it: something that can be read, and word that it is worth reading again.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::policy::problem::Problems;

/// One document of a policy set: its name, for messages, and its bytes.
pub type Document = (String, Vec<u8>);

/// A place that policies come from. Files are one; another needs no more than this.
pub struct PolicySource {
    /// Reads the whole set as it is now, or says everything that keeps it from being read. It may block, and is never
    /// called on the thread of a core.
    pub read: Box<dyn FnMut() -> Result<Vec<Document>, Problems> + Send>,
    /// Where word of changes comes in.
    pub hints: Arc<Hints>,
}

/// Word that a source is worth reading again. Never blocks, and many hints in a row are as good as one.
#[derive(Debug, Default)]
pub struct Hints {
    changed: Notify,
    asked: Notify,
}

/// Why to look at a source again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Something about it changed, and may go on changing.
    Changed,
    /// Somebody wants it, and to be told how it went.
    Asked,
}

impl Hints {
    /// Something about the source has changed.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    /// Somebody asks for a reload.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Waits for the next hint.
    pub async fn next(&self) -> Hint {
        tokio::select! {
            biased;
            () = self.asked.notified() => Hint::Asked,
            () = self.changed.notified() => Hint::Changed,
        }
    }
}
