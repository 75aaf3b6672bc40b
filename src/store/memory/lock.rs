//! The lock of a shard. With the feature `loom` tests put a modelled one in its place, whose threads take turns in every
//! order there is.

#[cfg(not(all(test, feature = "loom")))]
pub(super) use parking_lot::{Mutex, MutexGuard};

#[cfg(all(test, feature = "loom"))]
pub(super) use self::modelled::{Mutex, MutexGuard};

#[cfg(all(test, feature = "loom"))]
mod modelled {
    pub use loom::sync::MutexGuard;

    #[derive(Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread has panicked")
        }
    }
}
