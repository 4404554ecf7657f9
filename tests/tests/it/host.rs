//! Jobs as guests of a process: it is as it was when they have ended, and nobody heard of them.
//! Each test is in a process of its own, which has no other jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use overtake::connect::file::{Files, PartFiles};
use overtake::{Config, Flow, Job, Restart, Running};

use crate::harness::{Place, names, until};
use crate::rows::{Pace, until_published};

/// Names of threads as `Job::start` documents them; each may be followed by more.
const DOCUMENTED: [&str; 8] = [
    "overtake-job",
    "overtake-work-",
    "overtake-director",
    "overtake-writer",
    "overtake-publisher",
    "overtake-commit-",
    "overtake-read-",
    "overtake-write-",
];

const ROWS: u64 = 20_000;

/// Runs a test of this file in a process of its own, and asserts that nothing but the test was
/// heard. Answers whether this is that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "OVERTAKE_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let name = format!("host::{test}");
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let alone = alone.args(["--exact", &name, "--nocapture"]).env(ALONE, "1");
    let ended = alone.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{ended:?}");
    let is_of_the_test =
        |line: &str| line.is_empty() || line.starts_with("running 1") || line.starts_with("test ");
    let heard: Vec<_> = said.lines().filter(|line| !is_of_the_test(line)).collect();
    assert!(heard.is_empty() && ended.stderr.is_empty(), "somebody spoke: {ended:?}");
    false
}

/// What the system tells of each thread of this process: its name, its cores.
fn threads() -> BTreeMap<String, (String, String)> {
    let tasks = Path::new("/proc/self/task");
    let of = |thread: String| {
        // One that has just ended has nothing to tell.
        let status = fs::read_to_string(tasks.join(&thread).join("status")).ok()?;
        let name = field(&status, "Name")?.to_owned();
        let cores = field(&status, "Cpus_allowed_list")?.to_owned();
        Some((thread, (name, cores)))
    };
    names(tasks).into_iter().filter_map(of).collect()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// The signals that the process catches or ignores, and those that this thread blocks.
fn signals() -> [String; 3] {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    ["SigCgt", "SigIgn", "SigBlk"].map(|name| field(&status, name).unwrap().to_owned())
}

/// A job that reads a file, sums, and writes files.
fn start(place: &Place, job: Job, pace: &Pace, look: fn(u64)) -> Running {
    let input = place.path("numbers.csv");
    let rows = (0..ROWS).map(|n| format!("{},{n}\n", n % 100));
    fs::write(&input, "key,number\n".to_owned() + &rows.collect::<String>()).unwrap();
    let (out, pace) = (place.out(), pace.clone());
    let describe = move |flow: &mut Flow| {
        let pace = pace.clone();
        flow.source("numbers", Files::<(u64, u64)>::csv([&input]))
            .key_by(|row| row.0)
            .fold("sums", move |sum: &mut u64, row| {
                pace.spend();
                look(row.1);
                *sum += row.1;
            })
            .sink("files", PartFiles::csv(&out));
    };
    job.interval(Duration::from_millis(20)).state(place.state()).start(describe).unwrap()
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

fn is_documented(name: &str) -> bool {
    DOCUMENTED.iter().any(|documented| {
        let shown = &documented[..documented.len().min(15)];
        name.starts_with(shown)
    })
}

#[test]
fn two_jobs_at_once_leave_the_process_as_it_was() {
    if !is_alone("two_jobs_at_once_leave_the_process_as_it_was") {
        return;
    }
    let speak = panic::take_hook();
    panic::set_hook(Box::new(move |panic| match panic.to_string().contains("of the host") {
        true => _ = PANICS.fetch_add(1, Ordering::SeqCst),
        false => speak(panic),
    }));
    let (signals_before, threads_before) = (signals(), threads());
    let places = [Place::new(), Place::new()];
    let pace = Pace::default();
    pace.set(Duration::from_micros(20));
    let once = |number| {
        assert!(
            number != ROWS / 2 || PANICS.load(Ordering::SeqCst) > 0,
            "for the hook of the host"
        );
    };
    let restart = Restart::Fixed { delay: Duration::ZERO, attempts: 1 };
    let mut config = Config::default();
    // Little in flight, so that all threads are there for some time.
    (config.limits.credit, config.limits.batch_records_max) = (2, 128);
    let job = |name, workers| Job::new().config(config.clone()).name(name).workers(workers);
    let jobs = [
        start(&places[0], job("calm", 2), &pace, |_| ()),
        start(&places[1], job("restarted", 3).restart(restart), &pace, once),
    ];
    let mut seen = BTreeSet::new();
    until(|| {
        let mut new = threads();
        new.retain(|thread, _| !threads_before.contains_key(thread));
        // A thread has the name of its parent before it gives itself one.
        seen.extend(new.into_values().map(|(name, _)| name));
        jobs.iter().all(Running::has_ended)
    });
    let [calm, restarted] = jobs.map(|job| job.join().unwrap());
    assert_eq!((calm.restarts, restarted.restarts, PANICS.load(Ordering::SeqCst)), (0, 1, 1));
    assert!(calm.has_ended() && restarted.has_ended());

    let mut parents: BTreeSet<_> = threads_before.values().map(|(name, _)| name.clone()).collect();
    parents.insert("two_jobs_at_once_leave_the_process_as_it_was"[..15].to_owned());
    let strangers: Vec<_> =
        seen.iter().filter(|name| !is_documented(name) && !parents.contains(*name)).collect();
    assert!(strangers.is_empty(), "not documented: {strangers:?}");
    for documented in DOCUMENTED {
        let shown = &documented[..documented.len().min(15)];
        assert!(seen.iter().any(|name| name.starts_with(shown)), "nobody saw {shown}: {seen:?}");
    }
    drop((calm, restarted));
    until(|| threads().keys().eq(threads_before.keys()));
    assert_eq!(signals(), signals_before);
    // The hook is still that of the host.
    assert!(panic::catch_unwind(|| panic!("of the host")).is_err());
    assert_eq!(PANICS.load(Ordering::SeqCst), 2);
}

#[test]
fn a_process_with_one_core_has_one_worker_and_every_thread_stays_on_it() {
    if !is_alone("a_process_with_one_core_has_one_worker_and_every_thread_stays_on_it") {
        return;
    }
    let core = core_affinity::get_core_ids().unwrap().pop().unwrap();
    // Threads have the cores of those that start them.
    assert!(core_affinity::set_for_current(core));
    assert_eq!(Config::default().workers, 1);
    let before = threads();
    let (place, pace) = (Place::new(), Pace::default());
    pace.set(Duration::from_micros(20));
    let job = start(&place, Job::new(), &pace, |_| ());
    until_published(&job, |_| true);
    let mut new = threads();
    new.retain(|thread, _| !before.contains_key(thread));
    assert!(new.len() >= 7, "{new:?}");
    for (name, cores) in new.values() {
        assert_eq!(*cores, core.id.to_string(), "{name}");
    }
    assert_eq!(new.values().filter(|(name, _)| name.starts_with("overtake-work-")).count(), 1);
    assert!(job.join().unwrap().has_ended());
}

#[test]
fn the_engine_names_nothing_that_is_the_host_s() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let of_the_host = [
        "global_allocator",
        "process::exit",
        "panic::set_hook",
        "panic::take_hook",
        "set_global_recorder",
        "set_global_default",
        "set_logger",
        "set_var",
        "println!",
        "eprintln!",
    ];
    let mut unread: Vec<_> = ["engine/src", "state/src"].map(|path| root.join(path)).into();
    let mut read = 0;
    while let Some(path) = unread.pop() {
        if path.is_dir() {
            unread.extend(names(&path).into_iter().map(|name| path.join(name)));
            continue;
        }
        let is_of_tests = path.iter().any(|part| part == "tests") || path.ends_with("weaken.rs");
        if is_of_tests || path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        read += 1;
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let named = of_the_host.iter().find(|word| line.contains(*word));
            assert_eq!(named, None, "{}: {line}", path.display());
        }
    }
    assert!(read > 80, "these are not the sources");
}
