//! The command as a child process, its directories, and the comparison with the reference.
//!
//! Not here: jobs of the tests' own, see [`rows`](crate::rows).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use overtake::Clock;
use overtake_bench::flights::{JANUARY, PLANES};
use overtake_tests::reference::{self, Bill};
use tempfile::TempDir;

/// Whatever takes longer hangs. The machine of the tests may be slow, and busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The directories of a job, deleted with the value.
pub(crate) struct Place {
    root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { root: tempfile::tempdir().expect("a directory for the test") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.path("out")
    }

    /// The command `billing` on these directories.
    pub(crate) fn billing(&self, options: &str) -> Command {
        billing(&self.state(), &self.out(), options)
    }

    /// The checkpoints that are there.
    pub(crate) fn checkpoints(&self) -> usize {
        names(&self.state().join("manifests")).len()
    }

    /// Copies the state and the output of a job that does not run.
    pub(crate) fn copy_to(&self, other: &Place) {
        copy(&self.state(), &other.state());
        copy(&self.out(), &other.out());
    }

    /// Asserts that the invoices are those of a run that was never disturbed.
    pub(crate) fn assert_billed(&self, bill: &Bill) {
        assert_billed(&self.out(), bill);
    }
}

/// The command `billing` on a state and an output directory.
pub(crate) fn billing(state: &Path, out: &Path, options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_billing"));
    command.arg("billing").arg("--state").arg(state).arg("--out").arg(out);
    command.args(options.split_whitespace());
    command
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory of the copy");
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a file of the copy");
        }
    }
}

/// The names in a directory, sorted; none if it is not there.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// A child process that runs.
pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

/// How a child process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let stdout = collect(child.stdout.take().expect("it is piped"));
        let stderr = collect(child.stderr.take().expect("it is piped"));
        Running { child, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end, but not longer than that. Both pipes are closed by the end.
    pub(crate) fn end_within(&mut self, patience: Duration) -> Option<Ended> {
        let stdout = self.stdout.recv_timeout(patience).ok()?;
        let stderr = self.stderr.recv_timeout(PATIENCE).expect("both pipes end together");
        let status = self.child.wait().expect("a child that has ended can be waited for");
        Some(Ended { status, stdout, stderr })
    }

    /// Waits until the condition holds; answers whether it did before the end.
    pub(crate) fn wait_until(&self, condition: impl FnMut() -> bool) -> bool {
        let mut condition = condition;
        until(|| condition() || self.has_ended());
        condition()
    }

    fn has_ended(&self) -> bool {
        // The state of a process, after its name: `Z` is one that has ended.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
    }

    /// Kills it with `kill -9`; answers how it had ended, if it was faster.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().expect("our own child can be killed");
        self.end_within(PATIENCE).expect("a killed process ends")
    }

    /// Waits for the end, which must come.
    pub(crate) fn join(mut self) -> Ended {
        self.end_within(PATIENCE).unwrap_or_else(|| {
            let ended = self.kill();
            panic!("the command hangs: {ended:?}");
        })
    }
}

/// Reads a pipe to its end, on a thread of its own.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // What cannot be read was not said.
        let _ = pipe.read_to_end(&mut text);
        let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
    });
    told
}

/// Waits until the condition holds, which must happen.
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let clock = Clock::system();
    while !condition() {
        assert!(clock.now() < PATIENCE, "it never happens");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: Command) -> Ended {
    Running::start(command).join()
}

impl Ended {
    /// It did what it should.
    pub(crate) fn assert_success(&self) -> &Ended {
        assert!(self.status.success(), "{self:?}");
        self
    }

    /// It died at its crash point, and nowhere else.
    pub(crate) fn assert_crash(&self) -> &Ended {
        const SIGABRT: i32 = 6;
        assert_eq!(self.status.signal(), Some(SIGABRT), "no crash: {self:?}");
        self.assert_no_panic()
    }

    /// It failed in one line that says all of this.
    pub(crate) fn assert_refusal(&self, fragments: &[&str]) -> &Ended {
        assert_eq!(self.status.code(), Some(1), "{self:?}");
        let line = self.stderr.strip_suffix('\n').unwrap_or(&self.stderr);
        assert!(line.starts_with("error: ") && !line.contains('\n'), "not one line: {self:?}");
        for fragment in fragments {
            assert!(line.contains(fragment), "not a word of {fragment:?}: {self:?}");
        }
        self.assert_no_panic()
    }

    fn assert_no_panic(&self) -> &Ended {
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }
}

/// The bill of January, as the reference has it.
pub(crate) fn january() -> &'static Bill {
    static BILL: OnceLock<Bill> = OnceLock::new();
    BILL.get_or_init(|| bill_of(Path::new(JANUARY), 1))
}

/// The bill of a compressed file, as the reference has it.
pub(crate) fn bill_of(input: &Path, repeat: u16) -> Bill {
    reference::bill(Path::new(PLANES), &[input.to_owned()], repeat).expect("flights to be billed")
}

/// The header and the first rows of January.
pub(crate) fn first_flights(rows: usize) -> String {
    let mut text = String::new();
    let file = fs::File::open(JANUARY).expect("the flights of January");
    GzDecoder::new(file).read_to_string(&mut text).expect("the flights of January");
    let lines = text.lines().take(rows + 1);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Writes a compressed file.
pub(crate) fn write_gz(path: &Path, text: &str) {
    let file = fs::File::create(path).expect("a file of the test");
    let mut encoder = GzEncoder::new(file, Compression::fast());
    encoder.write_all(text.as_bytes()).expect("a file of the test");
    encoder.finish().expect("a file of the test");
}

/// Asserts that the part files are those of the bill, and `invoices.csv` is the bill.
pub(crate) fn assert_billed(out: &Path, bill: &Bill) {
    assert_updates(out, bill);
    let written = fs::read_to_string(out.join("invoices.csv")).expect("invoices.csv");
    assert_eq!(written, reference::csv(bill));
}

/// Asserts that over all part files each invoice has every version from 1 to its last exactly
/// once, that the last ones are the bill, and that nothing is left hidden.
pub(crate) fn assert_updates(out: &Path, bill: &Bill) {
    let expected = reference::csv(bill);
    let (header, lines) = expected.split_once('\n').expect("a header");
    let mut invoices = versions(out, header);
    for line in lines.lines() {
        let versions = invoices.remove(key(line).0).unwrap_or_default();
        let last = version(line);
        assert!(versions.keys().copied().eq(1..=last), "{}: {:?}", key(line).0, versions.keys());
        assert_eq!(versions[&last], line);
    }
    assert!(invoices.is_empty(), "nobody ordered {invoices:?}");
    let hidden = |name: &String| name.starts_with('.');
    assert_eq!(names(out).into_iter().find(hidden), None, "it is left behind");
}

/// All versions of each invoice in the visible part files.
fn versions(out: &Path, header: &str) -> BTreeMap<String, BTreeMap<u64, String>> {
    let mut invoices: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for name in names(out).iter().filter(|name| name.starts_with("part-")) {
        let text = fs::read_to_string(out.join(name)).expect("a part file");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(header), "{name}");
        for line in lines {
            let versions = invoices.entry(key(line).0.to_owned()).or_default();
            let before = versions.insert(version(line), line.to_owned());
            assert_eq!(before, None, "{name} has once more: {line}");
        }
    }
    invoices
}

/// Splits a line of the bill into carrier with month, and the rest.
fn key(line: &str) -> (&str, &str) {
    let second_comma = line.match_indices(',').nth(1).expect("a line of the bill").0;
    (&line[..second_comma], &line[second_comma + 1..])
}

fn version(line: &str) -> u64 {
    let mut numbers = key(line).1.split(',').map(|number| number.parse().expect("a number"));
    let [version, flights, cancelled] = [(); 3].map(|()| numbers.next().expect("a number"));
    assert_eq!(version, flights + cancelled, "{line}");
    version
}

/// Runs one thing for each item, on a few threads: most of the time of a child is waiting.
pub(crate) fn for_each_in_parallel<T: Sync>(items: &[T], what: impl Fn(&T) + Sync) {
    const THREADS: usize = 4;
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            what(item);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
