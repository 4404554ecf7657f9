//! Who starts the threads of a job: the engine, or the program that it is embedded in.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A thread that a job needs: started by [`Job::spawn`](crate::Job::spawn).
pub struct Thread {
    name: String,
    body: Box<dyn FnOnce() + Send>,
}

impl Thread {
    pub(crate) fn new(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Thread {
        Thread { name: name.into(), body: Box::new(body) }
    }

    /// What it is, as in the list of [threads](crate::Job::start).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does the thread's work on the calling thread, until the life of the job is over. It does not
    /// panic.
    pub fn run(self) {
        (self.body)();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("name", &self.name).finish_non_exhaustive()
    }
}

type Start = dyn Fn(Thread) -> io::Result<()> + Send + Sync;

/// See the [module](self).
#[derive(Clone, Default)]
pub(crate) enum Spawner {
    /// A thread of its own for each.
    #[default]
    Engine,
    Program(Arc<Start>),
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spawner::Engine => "Engine",
            Spawner::Program(_) => "Program",
        })
    }
}

impl Spawner {
    /// Starts a thread. Answers how to join it, if that is the engine's to do.
    pub(crate) fn spawn(&self, thread: Thread) -> io::Result<Option<JoinHandle<()>>> {
        match self {
            Spawner::Engine => {
                let builder = Builder::new().name(thread.name.clone());
                builder.spawn(move || thread.run()).map(Some)
            }
            Spawner::Program(start) => start(thread).map(|()| None),
        }
    }
}
