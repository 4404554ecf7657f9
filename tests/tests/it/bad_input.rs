//! What the command is given that it cannot use: one line that says what to do, and nothing lost.

use std::fs;
use std::path::Path;

use crate::harness::{
    Place, Running, bill_of, billing, first_flights, january, names, run, write_gz,
};

/// Rows of the small inputs.
const ROWS: usize = 4_000;

/// Slow enough for some checkpoints before the last rows.
const SLOWED: &str = "--workers 2 --rate 16000 --interval 20";

/// An input, and the bill of what it should be.
struct Input {
    place: Place,
    text: String,
}

impl Input {
    fn new() -> Input {
        let (place, text) = (Place::new(), first_flights(ROWS));
        write_gz(&place.path("right.csv.gz"), &text);
        Input { place, text }
    }

    fn options(&self, name: &str) -> String {
        format!("{SLOWED} --input {}", self.place.path(name).display())
    }

    /// Runs the job with a bad input, then with what it should have been.
    fn assert_refused_then_exact(&self, name: &str, fragments: &[&str], repair: impl Fn(&Path)) {
        let path = self.place.path(name);
        let refused = run(self.place.billing(&self.options(name)));
        refused.assert_refusal(fragments).assert_refusal(&[path.to_str().unwrap()]);
        repair(&path);
        run(self.place.billing(&self.options(name))).assert_success();
        self.place.assert_billed(&bill_of(&self.place.path("right.csv.gz"), 1));
    }
}

#[test]
fn a_malformed_row_is_named_and_once_it_is_repaired_the_bill_is_exact() {
    let input = Input::new();
    // Header, and 3,400 rows before it.
    let line = input.text.lines().nth(3_401).unwrap();
    let mut fields: Vec<&str> = line.split(',').collect();
    fields[15] = "far";
    let broken = input.text.replace(line, &fields.join(","));
    fs::write(input.place.path("flights.csv"), &broken).unwrap();
    let fragments = ["line 3402, column 16 (distance): ", "\"far\""];
    input.assert_refused_then_exact("flights.csv", &fragments, |path| {
        assert!(input.place.checkpoints() > 0, "it failed before its first checkpoint");
        fs::write(path, &input.text).unwrap();
    });
}

#[test]
fn an_input_that_was_changed_before_the_checkpoint_is_named_and_one_mended_and_added_to_is_read_on()
{
    let input = Input::new();
    let path = input.place.path("flights.csv");
    let line = input.text.lines().nth(3_401).unwrap();
    fs::write(&path, input.text.replace(line, &line.replace(',', ";"))).unwrap();
    let refused = run(input.place.billing(&input.options("flights.csv")));
    refused.assert_refusal(&[path.to_str().unwrap(), "line 3402, column "]);
    assert!(input.place.checkpoints() > 0, "it failed before its first checkpoint");

    // The bad row is mended, and another one is not what it was.
    fs::write(&path, input.text.replacen("2013,", "2012,", 1)).unwrap();
    let refused = run(input.place.billing(&input.options("flights.csv")));
    refused.assert_refusal(&[
        path.to_str().unwrap(),
        "was changed before byte ",
        ": put the file back that the job has begun with, or start anew in an empty state directory",
    ]);

    let longer = first_flights(ROWS + 500);
    assert!(longer.starts_with(&input.text));
    fs::write(&path, &longer).unwrap();
    write_gz(&input.place.path("right.csv.gz"), &longer);
    run(input.place.billing(&input.options("flights.csv"))).assert_success();
    input.place.assert_billed(&bill_of(&input.place.path("right.csv.gz"), 1));
}

#[test]
fn a_compressed_file_that_breaks_off_is_named_and_the_whole_one_is_read_on() {
    let input = Input::new();
    let whole = fs::read(input.place.path("right.csv.gz")).unwrap();
    fs::write(input.place.path("flights.csv.gz"), &whole[..whole.len() * 4 / 5]).unwrap();
    input.assert_refused_then_exact("flights.csv.gz", &["line ", "cannot read on"], |path| {
        assert!(input.place.checkpoints() > 0, "it failed before its first checkpoint");
        fs::write(path, &whole).unwrap();
    });
}

#[test]
fn inputs_that_cannot_be_read_at_all_are_named() {
    let place = Place::new();
    let refused = |name: &str, fragments: &[&str]| {
        let path = place.path(name);
        let options = format!("--workers 2 --input {}", path.display());
        run(place.billing(&options))
            .assert_refusal(&[path.to_str().unwrap()])
            .assert_refusal(fragments);
        // Whose input it was does not matter: nothing was billed.
        _ = fs::remove_dir_all(place.state());
        assert_eq!(names(&place.out()), [""; 0], "{name}");
    };
    refused("missing.csv", &["No such file"]);
    fs::create_dir(place.path("directory")).unwrap();
    refused("directory", &["directory"]);
    fs::write(place.path("empty.csv"), "").unwrap();
    refused("empty.csv", &["line 1, column 1: the file is empty"]);
    fs::write(place.path("other.csv"), "who,what\nI,this\n").unwrap();
    refused("other.csv", &["line 1, column (tailnum): there is no such column"]);
    fs::write(place.path("no.csv.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    refused("no.csv.gz", &["line 1: cannot read on"]);
    fs::write(place.path("text.csv"), first_flights(3).replace("UA", "U\u{e9}").into_bytes())
        .unwrap();
    refused("text.csv", &["line 2, column 10 (carrier)"]);
}

#[test]
fn an_input_that_has_shrunk_since_the_last_life_is_named() {
    let input = Input::new();
    let path = input.place.path("flights.csv");
    fs::write(&path, &input.text).unwrap();
    let running = Running::start(input.place.billing(&input.options("flights.csv")));
    assert!(running.wait_until(|| input.place.checkpoints() >= 2));
    running.kill();
    fs::write(&path, first_flights(10)).unwrap();
    let refused = run(input.place.billing(&input.options("flights.csv")));
    refused.assert_refusal(&[path.to_str().unwrap(), "put the file back"]);
    fs::write(&path, &input.text).unwrap();
    run(input.place.billing(&input.options("flights.csv"))).assert_success();
    input.place.assert_billed(&bill_of(&input.place.path("right.csv.gz"), 1));
}

#[test]
fn values_of_options_are_checked_before_anything_is_made() {
    let place = Place::new();
    for (options, fragment) in [
        ("--workers 0", "--workers"),
        ("--workers 257", "1 to 256"),
        ("--workers many", "--workers"),
        ("--mode sideways", "aligned, unaligned, adaptive"),
        ("--interval 0", "--interval"),
        ("--rate 0", "--rate"),
        ("--rate -1", "-1"),
        ("--repeat 0", "--repeat"),
        ("--repeat 1001", "1 to 1000"),
        ("--input", "--input"),
        ("--speed 3", "--speed"),
    ] {
        run(place.billing(options)).assert_refusal(&[fragment]);
    }
    assert_eq!((names(&place.state()), names(&place.out())), (vec![], vec![]));
}

/// A job that was killed after some checkpoints.
fn interrupted() -> Place {
    let place = Place::new();
    let running = Running::start(place.billing("--workers 2 --rate 40000 --interval 20"));
    assert!(running.wait_until(|| place.checkpoints() >= 2));
    running.kill();
    place
}

#[test]
fn a_state_directory_of_another_job_is_refused_and_the_option_is_named() {
    let place = interrupted();
    write_gz(&place.path("other.csv.gz"), &first_flights(10));
    let state = place.state();
    for (options, name) in [
        ("--repeat 2".to_owned(), "--repeat is \"1\""),
        (format!("--input {}", place.path("other.csv.gz").display()), "whose --input is"),
    ] {
        run(place.billing(&options)).assert_refusal(&[name, state.to_str().unwrap()]);
    }
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/letter"), "Dear all").unwrap();
    let refused = run(billing(&place.path("home"), &place.out(), ""));
    refused.assert_refusal(&["\"letter\"", "name an empty directory"]);
    assert_eq!(names(&place.path("home")), ["letter"]);

    run(place.billing("--workers 3")).assert_success();
    place.assert_billed(january());
}

#[test]
fn f39_a_directory_in_use_is_refused_while_its_process_lives() {
    let place = Place::new();
    let running = Running::start(place.billing("--workers 2 --rate 1000 --interval 20"));
    assert!(running.wait_until(|| place.checkpoints() >= 1));
    let expected = format!("in use by process {}: stop that process first", running.id());
    run(place.billing("--workers 2")).assert_refusal(&[&expected]);
    running.kill();
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(january());
}

#[test]
fn an_output_directory_with_files_of_another_job_is_refused_and_left_alone() {
    let place = Place::new();
    let foreign = "part-00000000000000ff-0000000001-0000000001-invoices-0000.csv";
    for name in [foreign.to_owned(), format!(".{foreign}")] {
        fs::create_dir_all(place.out()).unwrap();
        fs::write(place.out().join(&name), "of another job").unwrap();
        run(place.billing("--workers 2")).assert_refusal(&[&name, "choose an empty directory"]);
        assert_eq!(names(&place.out()), [name.as_str()]);
        fs::remove_file(place.out().join(&name)).unwrap();
    }
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(january());
}

#[test]
fn a_part_file_that_vanished_before_its_commit_is_missed() {
    let place = Place::new();
    let mut command = place.billing("--workers 2 --rate 20000 --interval 400");
    run({
        command.env("OVERTAKE_CRASH_AT", "published:2");
        command
    })
    .assert_crash();
    let hidden = |name: &String| name.starts_with(".part-") && !name.contains("-open");
    let name = names(&place.out()).into_iter().find(hidden).expect("one is prepared");
    let (kept, path) = (place.path("kept"), place.out().join(&name));
    fs::rename(&path, &kept).unwrap();
    run(place.billing("--workers 2")).assert_refusal(&[&name[1..], "put it back"]);
    fs::rename(&kept, &path).unwrap();
    run(place.billing("--workers 2")).assert_success();
    place.assert_billed(january());
}

#[test]
fn f20_nothing_is_visible_before_its_checkpoint_is_complete() {
    let place = Place::new();
    let mut command = place.billing("--workers 2 --rate 20000 --interval 400");
    command.env("OVERTAKE_CRASH_AT", "publish:1");
    run(command).assert_crash();
    let names = names(&place.out());
    assert!(names.iter().all(|name| name.starts_with(".part-")) && !names.is_empty(), "{names:?}");
}

/// A little tmpfs, for a disk that is full.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// None where nobody may mount.
    fn mount(path: &'a Path, size: &str) -> Option<SmallDisk<'a>> {
        fs::create_dir_all(path).unwrap();
        let mount = |options: &str| {
            let mut command = std::process::Command::new("mount");
            command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(path);
            command.output().is_ok_and(|output| output.status.success())
        };
        mount(&format!("size={size}")).then_some(SmallDisk(path))
    }

    fn grow(&self) {
        let mut command = std::process::Command::new("mount");
        command.args(["-o", "remount,size=64m"]).arg(self.0);
        assert!(command.status().unwrap().success());
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let mut command = std::process::Command::new("umount");
        let _ = command.arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_with_more_room_the_job_goes_on() {
    let place = Place::new();
    for (full, size) in [(place.state(), "120k"), (place.out(), "200k")] {
        _ = fs::remove_dir_all(place.state());
        _ = fs::remove_dir_all(place.out());
        let Some(disk) = SmallDisk::mount(&full, size) else {
            println!("skipped: only root can mount a small disk");
            return;
        };
        let ended = run(place.billing("--workers 2 --rate 60000 --interval 20"));
        ended.assert_refusal(&[full.to_str().unwrap(), "No space left on device"]);
        disk.grow();
        run(place.billing("--workers 2 --interval 20")).assert_success();
        place.assert_billed(january());
        drop(disk);
    }
}

#[test]
fn a_row_that_is_malformed_in_every_life_never_moves_the_job_past_it() {
    let input = Input::new();
    let broken = input.text.replacen(",1,1,517,", ",1,1,25:17,", 1);
    assert_ne!(broken, input.text);
    fs::write(input.place.path("flights.csv"), &broken).unwrap();
    for _ in 0..3 {
        let ended = run(input.place.billing(&input.options("flights.csv")));
        ended.assert_refusal(&["line 2, column 4 (dep_time)", "\"25:17\""]);
    }
    assert_eq!(names(&input.place.out()), [""; 0]);
}
