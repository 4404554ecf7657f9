//! What the compiler does not keep: heads, widths, lengths, names, cited labels, one direction of
//! dependencies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const CRATES: [&str; 4] = ["state", "engine", "bench", "tests"];
const WIDTH_MAX: usize = 100;
const LINES_MAX: usize = 800;
/// Rooms in which anything could be: no newcomer would know what.
const NAMES_THAT_SAY_NOTHING: [&str; 8] =
    ["util", "utils", "common", "helpers", "types", "internal", "manager", "v2"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn collect(directory: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.insert(path.strip_prefix(root()).unwrap().to_owned(), text);
        }
    }
}

fn sources() -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    CRATES.iter().for_each(|name| collect(&root().join(name), &mut files));
    assert!(files.len() > 50, "these are not the sources");
    files
}

fn has_own_head(path: &Path) -> bool {
    let is_test = path.components().any(|part| part.as_os_str() == "tests");
    !is_test && path.file_name().is_some_and(|name| name != "tests.rs")
}

#[test]
fn every_file_says_what_it_is_for() {
    let without: Vec<_> = sources()
        .into_iter()
        .filter(|(path, text)| has_own_head(path) && !text.starts_with("//!"))
        .map(|(path, _)| path)
        .collect();
    assert!(without.is_empty(), "the first line is no `//!` in {without:?}");
}

#[test]
fn no_line_is_too_wide_and_no_file_too_long() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.contains('"')) {
            let (width, number) = (line.chars().count(), i + 1);
            assert!(width <= WIDTH_MAX, "{}:{number} has {width} columns", path.display());
        }
    }
}

#[test]
fn no_room_has_a_name_that_says_nothing() {
    for path in sources().keys() {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(!NAMES_THAT_SAY_NOTHING.contains(&stem), "{}", path.display());
    }
}

#[test]
fn state_depends_on_neither_timely_nor_the_engine() {
    let manifest = std::fs::read_to_string(root().join("state/Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
    for line in dependencies.lines() {
        let name = line.split(['.', ' ', '=']).next().unwrap();
        assert!(name != "timely" && name != "overtake" && name != "overtake-bench", "{line}");
    }
}

/// The label of a line such as `//! * **E4**: …`.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//! * **")?;
    let label = rest.split("**").next()?;
    let is_label = label.len() >= 2
        && label.starts_with(|c: char| c.is_ascii_uppercase())
        && label.ends_with(|c: char| c.is_ascii_digit())
        && label.chars().all(|c| c.is_ascii_alphanumeric());
    is_label.then_some(label)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

#[test]
fn every_label_of_an_invariant_is_cited_somewhere() {
    let files = sources();
    let lines = || files.iter().flat_map(|(path, text)| text.lines().map(move |line| (path, line)));
    let mut labels: BTreeMap<&str, Vec<&PathBuf>> = BTreeMap::new();
    for (path, line) in lines() {
        if let Some(label) = defined(line) {
            labels.entry(label).or_default().push(path);
        }
    }
    assert!(labels.len() > 20, "these are not the invariants");
    for (label, places) in labels {
        // A connector that says how it keeps a rule of a contract cites it by its label.
        let is_cited = places.len() > 1
            || lines().any(|(_, line)| {
                defined(line) != Some(label)
                    && words(line).any(|word| word.eq_ignore_ascii_case(label))
            });
        assert!(is_cited, "nobody cites {label} of {}", places[0].display());
    }
}
