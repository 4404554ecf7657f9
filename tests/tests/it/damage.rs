//! Every file of a stopped job's state directory, missing, truncated, emptied, with a bit flipped
//! or of another version: refused in one line that names a file, or the bill is exact.

use std::fs;
use std::path::{Path, PathBuf};

use overtake::connect::file::{Files, PartFiles};
use overtake::{Error, Job, Report};
use overtake_bench::billing::job::billing;
use overtake_bench::flights::JANUARY;

use crate::harness::{Place, assert_updates, january, names, run};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Missing,
    Truncated,
    Emptied,
    Flipped,
    /// The format version of the file is one that nobody knows.
    Versioned,
}

const DAMAGES: [Damage; 5] =
    [Damage::Missing, Damage::Truncated, Damage::Emptied, Damage::Flipped, Damage::Versioned];

impl Damage {
    fn inflict(self, path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        match self {
            Damage::Missing => return fs::remove_file(path).unwrap(),
            Damage::Truncated => bytes.truncate(bytes.len() / 2),
            Damage::Emptied => bytes.clear(),
            // A file that was just begun is empty, and the lock has no version.
            Damage::Flipped | Damage::Versioned if bytes.len() < 16 => {}
            Damage::Flipped => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
            }
            Damage::Versioned => bytes[12..16].copy_from_slice(&7u32.to_le_bytes()),
        }
        fs::write(path, bytes).unwrap();
    }
}

/// The files in the state directory, by name within it.
fn files(place: &Place) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in names(&place.state()) {
        let path = place.state().join(&name);
        if path.is_dir() {
            files.extend(names(&path).into_iter().map(|file| PathBuf::from(&name).join(file)));
        } else {
            files.push(name.into());
        }
    }
    files
}

/// The command's job: the same flow and identity, without what the command prints.
fn go_on(place: &Place, workers: usize) -> Result<Report, Error> {
    let out = place.out();
    let job = Job::new().workers(workers).state(place.state());
    let job = job.identity("--input", JANUARY).identity("--repeat", "1");
    job.run(move |flow| {
        let flights = flow.source("flights", Files::csv([JANUARY]));
        billing(flow, flights, PartFiles::csv(out.clone()));
    })
}

/// A job that died at these steps, one life after the other.
fn died_at(options: &str, steps: &[&str]) -> Place {
    let place = Place::new();
    for step in steps {
        let mut command = place.billing(&format!("--workers 2 {options}"));
        command.env("OVERTAKE_CRASH_AT", step);
        run(command).assert_crash();
    }
    place
}

/// Damages a file of a copy and goes on there: answers what was passed over.
fn assert_refused_or_exact(place: &Place, file: &Path, damage: Damage) -> Result<usize, String> {
    let copy = Place::new();
    place.copy_to(&copy);
    damage.inflict(&copy.state().join(file));
    let why = match go_on(&copy, 2) {
        Ok(report) => {
            assert_updates(&copy.out(), january());
            return Ok(report.passed_over.len());
        }
        Err(Error::Panicked { name, message, .. }) => panic!("{name} panicked: {message}"),
        Err(why) => why.to_string(),
    };
    println!("{damage:?} {file:?}: {why}");
    let name = file.to_str().unwrap();
    assert!(why.contains(name) || damage == Damage::Missing && name == "job", "{name}: {why}");
    assert!(!why.contains('\n'), "{why}");
    assert!(damage != Damage::Versioned || why.contains("format version 7"), "{why}");
    // Nothing was overwritten: with the file put back all is well.
    fs::copy(place.state().join(file), copy.state().join(file)).unwrap();
    go_on(&copy, 1).unwrap();
    assert_updates(&copy.out(), january());
    Err(why)
}

#[test]
fn f10_f40_a_damaged_file_is_refused_by_name_or_the_bill_is_exact() {
    // Three lives, and at last a checkpoint that is complete and not marked.
    let place = died_at("--rate 30000 --interval 25", &["announce:3", "commit:2", "published:4"]);
    let files = files(&place);
    for folder in ["job", "lives", "manifests", "marks", "segments"] {
        assert!(files.iter().any(|file| file.starts_with(folder)), "{folder} in {files:?}");
    }
    let (mut refused, mut passed_over) = (0, 0);
    for file in &files {
        for damage in DAMAGES {
            match assert_refused_or_exact(&place, file, damage) {
                Ok(checkpoints) => passed_over += checkpoints,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 0 && passed_over > 0, "{refused} refused, {passed_over} passed over");
}

#[test]
fn f30_an_older_checkpoint_is_used_only_if_nothing_is_written_twice() {
    // What its newest checkpoint lists may be committed: one of two transactions is. The next
    // checkpoint is far away.
    let place = died_at("--rate 6000 --interval 1500", &["commit:4"]);
    let newest = names(&place.state().join("manifests")).pop().unwrap();
    let of_newest = |file: &PathBuf| {
        let name = file.to_str().unwrap();
        name.contains(&newest) && !name.starts_with("marks")
    };
    let files: Vec<PathBuf> = files(&place).into_iter().filter(of_newest).collect();
    assert_eq!(files.len(), 3, "a manifest and a segment of each worker: {files:?}");
    for file in &files {
        for damage in DAMAGES {
            let why = assert_refused_or_exact(&place, file, damage).expect_err("it went back");
            assert!(why.contains("would write the same results again"), "{why}");
        }
    }
}
