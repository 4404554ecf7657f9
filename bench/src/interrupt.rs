//! Ctrl-C, and the request to end that a service manager sends: the first asks the job to stop, the
//! second ends the process at once, as `kill -9` would.
//!
//! Not here: stopping itself, which is [`Handle::stop`]. The library touches no signal.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use overtake::Handle;

use crate::scratch;

/// From now on an interruption of a measurement removes what it has written, and ends it. A command
/// that stops a job instead has said so before.
pub(crate) fn removes_scratch() {
    // Refused if there is a handler: this one, or that of a job.
    let _ = ctrlc::try_set_handler(|| {
        scratch::remove_all();
        std::process::exit(i32::from(INTERRUPTED));
    });
}

/// The exit code of a command that was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// From now on an interruption stops the job. Once in a process.
///
/// # Errors
///
/// If the system takes no handler.
pub(crate) fn stops(job: Handle) -> anyhow::Result<()> {
    let is_stopping = AtomicBool::new(false);
    let handler = move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("stopping after one more checkpoint; once more ends the command at once");
        job.stop();
    };
    ctrlc::set_handler(handler).context("cannot listen for Ctrl-C")
}
