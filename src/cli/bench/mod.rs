//! `comporta bench`: what a decision costs, held against a server that decides nothing.
//!
//! Everything that is measured is a process of its own, started here: the baseline and the servers are this same program.
//! Those who ask are threads of this process.

mod accuracy;
pub mod args;
pub mod baseline;
mod child;
mod error;
mod figures;
mod folder;
mod grid;
mod keys;
mod load;
mod machine;
mod meter;
mod pace;
mod policies;
mod question;
mod quick;
mod redis;
mod round_trip;
mod rounds;
mod server;
mod spread;
mod stream;
mod table;
mod tally;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use self::args::BenchArgs;
use self::error::BenchError;
use self::folder::Folder;
use self::redis::Redis;
use super::exit::Exit;
use super::serve::Signals;
use crate::store::redis::RedisUrl;

/// What every measurement needs. What was started ends before the folder goes.
struct Bench<'a> {
    /// Absent where only memory is measured.
    redis: Option<Redis>,
    folder: Folder,
    /// How long each server is asked, all rounds together.
    duration: Duration,
    /// Where it is said what is being done.
    progress: RefCell<&'a mut dyn Write>,
}

impl Bench<'_> {
    /// Says what is being done, to whoever waits.
    fn say(&self, what: &str) {
        // Nobody has to read it.
        let _ = writeln!(self.progress.borrow_mut(), "{what}");
    }
}

/// Where counters may live beside the memory of a server.
enum Wanted {
    MemoryOnly,
    /// Started here.
    Own,
    /// Started here, if there is a program for that.
    OwnIfInstalled,
    Given(String),
}

/// Measures as `args` say; the result goes to `out` or into a file, and what is being done to `err`.
///
/// # Errors
/// When `out` or `err` cannot be written to, or the system refuses a runtime.
pub(super) fn bench(args: &BenchArgs, out: &mut impl Write, err: &mut impl Write) -> io::Result<Exit> {
    let wanted = match wanted(args.store.as_deref()) {
        Ok(wanted) => wanted,
        Err(mistake) => {
            writeln!(err, "--store: {mistake}")?;
            return Ok(Exit::Usage);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let said = runtime.block_on(async {
        let mut signals = Signals::new().map_err(BenchError::io("listen for signals"))?;
        tokio::select! {
            said = run(args, wanted, err) => said,
            () = signals.next() => Err(BenchError::Stopped),
        }
    });
    match said {
        Ok(said) => {
            out.write_all(said.as_bytes())?;
            Ok(Exit::Fine)
        }
        Err(error) => {
            writeln!(err, "{error}")?;
            Ok(Exit::No)
        }
    }
}

/// Says nothing of a URL that is none: it may have been a password.
fn wanted(store: Option<&str>) -> Result<Wanted, String> {
    match store {
        None => Ok(Wanted::OwnIfInstalled),
        Some("memory") => Ok(Wanted::MemoryOnly),
        Some("redis") => Ok(Wanted::Own),
        Some(url) => match RedisUrl::parse(url) {
            Ok(_) => Ok(Wanted::Given(url.to_owned())),
            Err(error) => Err(format!("neither `memory` nor `redis` nor a Redis: {error}")),
        },
    }
}

async fn run(args: &BenchArgs, wanted: Wanted, progress: &mut dyn Write) -> Result<String, BenchError> {
    if let Some(path) = &args.table {
        // Better now than in some minutes.
        open(path)?;
    }
    let folder = Folder::new()?;
    let redis = match wanted {
        Wanted::MemoryOnly => None,
        Wanted::Own => Some(Redis::start(&folder).await?),
        Wanted::OwnIfInstalled => match Redis::start(&folder).await {
            Ok(redis) => Some(redis),
            Err(BenchError::NoRedis) => {
                let _ = writeln!(
                    progress,
                    "redis-server is not installed, so only memory is measured"
                );
                None
            }
            Err(error) => return Err(error),
        },
        Wanted::Given(url) => Some(Redis::given(&url)),
    };
    let bench = Bench {
        redis,
        folder,
        duration: args.duration,
        progress: RefCell::new(progress),
    };
    if let Some(path) = &args.table {
        let table = table::measure(&bench).await?;
        fs::write(path, table).map_err(BenchError::io(format!("write {}", path.display())))?;
        return Ok(String::new());
    }
    let report = quick::measure(&bench, args).await?;
    Ok(if args.json {
        format!("{}\n", report.as_json())
    } else {
        report.as_text()
    })
}

fn open(path: &Path) -> Result<File, BenchError> {
    let opened = File::options().append(true).create(true).open(path);
    opened.map_err(BenchError::io(format!("write {}", path.display())))
}
