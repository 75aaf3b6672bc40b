//! Puts the program together.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::key_secret::{self, KeySecretError};
use super::mounts;
use super::settings::{Settings, StoreSettings};
use super::sources::{self, Source};
use super::stores::Stores;
use super::watch::Watch;
use crate::clock::{Clock, SystemClock};
use crate::domain::check::OnStoreFailure;
use crate::policy::PolicySet;
use crate::policy::problem::{Problem, Problems};
use crate::service::admin::{MetricsPage, Operators};
use crate::service::headers::HeaderStyle;
use crate::service::limiter::Limiter;
use crate::service::live::Policies;
use crate::service::options::LimiterOptions;
use crate::service::reload::{self, Reloader};
use crate::service::server::{Bound, ServerError};
use crate::service::source::{Hints, PolicySource};
use crate::store::instances::Instances;
use crate::store::key::Keys;
use crate::store::redis::{Notice, Notices, Teller};
use crate::telemetry::metrics::{MEDIA_TYPE, Metrics};

/// A server that is bound and knows its policy, but answers nothing yet.
pub struct App {
    settings: Settings,
    sources: Vec<Source>,
    policies: PolicySet,
    keys: Keys,
    hints: Arc<Hints>,
    /// What other instances say, and where to tell them something, where the store is shared.
    notices: Option<(Notices, Teller)>,
    bound: Bound,
}

/// Why the program could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The policy cannot be used.
    #[error("{0}")]
    Policy(Problems),
    /// What is secret could not be kept so, or counted.
    #[error(transparent)]
    KeySecret(#[from] KeySecretError),
    /// The server could not start, or a part of it ended.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The real addresses could not be written where they were asked for.
    #[error("cannot write {}: {source}", path.display())]
    ReadyFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl App {
    /// Reads the policy and binds every port.
    ///
    /// # Errors
    /// When the policy cannot be used or a port is not to be had.
    pub async fn build(settings: Settings) -> Result<Self, AppError> {
        let keys = key_secret::keys(&settings)?;
        let sources = sources::read(&settings.policies).map_err(AppError::Policy)?;
        let policies = sources::compile(&sources, settings.assumed).map_err(AppError::Policy)?;
        for warning in policies.warnings() {
            tracing::warn!("{warning}");
        }
        key_secret::check(&policies, &settings)?;
        if let Some(path) = &settings.ready_file {
            remove_stale_ready_file(path).map_err(|source| AppError::ReadyFile {
                path: path.clone(),
                source,
            })?;
        }
        warn_of(&settings.limiter);
        let bound = Bound::new(settings.grpc, settings.admin).await?;
        let notices = match &settings.store {
            StoreSettings::Memory => None,
            StoreSettings::Redis { target, .. } => Some(Notices::new(Arc::clone(target), &keys)),
        };
        Ok(Self {
            settings,
            sources,
            policies,
            keys,
            hints: Arc::default(),
            notices,
            bound,
        })
    }

    /// Where gateways ask; the real port, also when 0 was asked for.
    pub const fn grpc_addr(&self) -> SocketAddr {
        self.bound.grpc_addr()
    }

    /// Where operators look.
    pub const fn admin_addr(&self) -> SocketAddr {
        self.bound.admin_addr()
    }

    /// Asks for a reload of the policy, here and in all instances that share the store.
    pub fn reload(&self) -> impl Fn() + use<> {
        let hints = Arc::clone(&self.hints);
        let teller = self.notices.as_ref().map(|(_, teller)| teller.clone());
        move || {
            hints.ask();
            if let Some(teller) = &teller {
                teller.tell(Notice::Reload);
            }
        }
    }

    /// Serves until `shutdown`, then drains.
    ///
    /// # Errors
    /// When the server cannot start, or a part of it ends by itself.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), AppError> {
        let Self {
            settings,
            sources,
            policies,
            keys,
            hints,
            notices,
            bound,
        } = self;
        let (grpc, admin) = (bound.grpc_addr(), bound.admin_addr());
        let workers = settings.server.workers;
        let (rules, domains) = (policies.limit_count(), policies.policies().len());
        let hash = reload::hex(policies.hash());
        // One more than answers gateways: scripts ask on the operators' port.
        let instances = settings.instances.map(Instances::fixed).unwrap_or_default();
        let metrics = Arc::new(Metrics::new(workers + 1).showing(instances.clone()));
        let policies = Arc::new(Policies::new(policies, Arc::clone(&metrics) as Arc<_>));
        let (notices, teller) = notices.unzip();
        let stores = Stores::new(&settings, keys.clone(), teller, instances, Arc::clone(&metrics));
        let mut operators = operators(&settings, Arc::clone(&hints), &policies, &sources, &metrics);
        operators.background = stores.beside(operators.background, notices, hints);
        let options = settings.limiter.clone();
        let seed = SystemClock.now().as_micros() ^ u64::from(std::process::id()).rotate_left(40);
        let limiter = move |core| {
            let (policies, keys, options) = (Arc::clone(&policies), keys.clone(), options.clone());
            Limiter::new(core, policies, stores.for_core(core), SystemClock, keys, options)
        };
        let running = bound.start(&settings.server, operators, seed, limiter)?;
        running.open().await;
        if let Some(path) = &settings.ready_file {
            write_ready_file(path, grpc, Some(admin)).map_err(|source| AppError::ReadyFile {
                path: path.clone(),
                source,
            })?;
        }
        tracing::info!(%grpc, %admin, workers, rules, domains, hash, "ready");
        Ok(running.run(shutdown).await?)
    }
}

/// What operators see, and beside it the watch over the policy's files.
fn operators(
    settings: &Settings,
    hints: Arc<Hints>,
    policies: &Arc<Policies>,
    sources: &[Source],
    metrics: &Arc<Metrics>,
) -> Operators {
    let at_start = settings.clone();
    let reloader = Reloader::new(
        policy_files(&settings.policies, sources, hints),
        Box::new(move |sources| {
            let policies = sources::compile(sources, at_start.assumed)?;
            key_secret::check(&policies, &at_start)
                .map_err(|error| Problems::from(vec![Problem::about_file("policy", error.to_string())]))?;
            Ok(policies)
        }),
        Arc::clone(policies),
        sources,
        Arc::new(SystemClock),
        Arc::clone(metrics) as Arc<_>,
    );
    Operators {
        metrics: metrics_page(Arc::clone(metrics)),
        policy: Arc::new(reloader.page()),
        background: Box::pin(reloader.run()),
    }
}

/// The files that `paths` name; what was first read of them is `sources`.
fn policy_files(paths: &[PathBuf], sources: &[Source], hints: Arc<Hints>) -> PolicySource {
    let paths = paths.to_owned();
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|kind| kind.is_file() || kind.is_dir());
    if !paths.iter().all(is_file) {
        tracing::info!("a policy that comes through a pipe can be read once, so it will not be reloaded");
        let sources = sources.to_owned();
        let read = Box::new(move || Ok(sources.clone()));
        return PolicySource { read, hints };
    }
    for path in paths
        .iter()
        .filter(|path| path.is_file() && mounts::is_mount_point(path))
    {
        tracing::warn!(
            file = %path.display(),
            "this file is mounted by itself, as by `subPath`: changes to it may never arrive here; mount its folder"
        );
    }
    let mut watch = Watch::new(paths.clone(), Arc::clone(&hints));
    let read = Box::new(move || {
        watch.follow();
        sources::read(&paths)
    });
    PolicySource { read, hints }
}

/// Says what an operator should not forget, or cannot have meant.
fn warn_of(options: &LimiterOptions) {
    if options.modes.shadow {
        tracing::warn!("nothing is refused: every rule is only watched (--shadow)");
    }
    if options.modes.shadow && options.on_store_failure == OnStoreFailure::Error {
        tracing::warn!(
            "while Redis cannot decide, requests are errors although nothing is to be refused (--shadow): with \
             --on-store-failure allow they pass"
        );
    }
    let shows_names = matches!(options.headers, Some(HeaderStyle::Draft03 | HeaderStyle::Both));
    if options.names.are_chosen() && !shows_names {
        tracing::warn!(
            "headers were given names but are not sent: --header-limit, --header-remaining and --header-reset need \
             --headers draft03 or both"
        );
    }
}

fn metrics_page(metrics: Arc<Metrics>) -> MetricsPage {
    MetricsPage {
        media_type: MEDIA_TYPE,
        render: Arc::new(move || metrics.render().ok()),
    }
}

/// Removes what an earlier run left at `path`: it is not true of this one. Whatever else is there is somebody's, such as
/// the policy or a device, and stays.
fn remove_stale_ready_file(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !there.is_file() {
        return Err(io::Error::other("there is something that is not a file"));
    }
    let text = fs::read(path)?;
    let is_ready_file = |text: Value| text["grpc"].is_string() && text["admin"].is_string();
    if !text.is_empty() && !serde_json::from_slice(&text).is_ok_and(is_ready_file) {
        return Err(io::Error::other("there is a file that is no ready file"));
    }
    fs::remove_file(path)
}

/// The whole file or none: whoever waits for it must not read half of it.
pub(super) fn write_ready_file(path: &Path, grpc: SocketAddr, admin: Option<SocketAddr>) -> io::Result<()> {
    let admin = admin.map(|admin| admin.to_string());
    let text = serde_json::json!({ "grpc": grpc.to_string(), "admin": admin }).to_string();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, text + "\n")?;
    fs::rename(&unfinished, path).inspect_err(|_| {
        // What remains is that it could not be put in place.
        let _ = fs::remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_earlier_run_left_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ready.json");
        for (there, goes) in [
            ("", true),
            ("{\"admin\":\"127.0.0.1:2\",\"grpc\":\"127.0.0.1:1\"}\n", true),
            ("domain: edge\n", false),
            ("{}", false),
        ] {
            fs::write(&path, there).expect("written");
            assert_eq!(remove_stale_ready_file(&path).is_ok(), goes, "{there}");
            assert_eq!(path.exists(), !goes, "{there}");
        }
        fs::remove_file(&path).expect("removed");
        remove_stale_ready_file(&path).expect("nothing to remove");
    }

    #[test]
    fn the_ready_file_is_written_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ready.json");
        let (grpc, admin) = (
            SocketAddr::from(([127, 0, 0, 1], 1)),
            SocketAddr::from(([127, 0, 0, 1], 2)),
        );
        write_ready_file(&path, grpc, Some(admin)).expect("written");
        let text = fs::read_to_string(&path).expect("readable");
        assert_eq!(text, "{\"admin\":\"127.0.0.1:2\",\"grpc\":\"127.0.0.1:1\"}\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
