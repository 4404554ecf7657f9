use std::io::Write;
use std::path::Path;
use std::sync::Weak;

use csv::{Terminator, WriterBuilder};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::*;
use crate::Waker;
use crate::channel::wake::{Wake, WorkerWake};
use crate::connect::file::read_ahead::CHUNK_RECORDS;

mod resumed;

/// Small numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % bound
    }

    fn row(&mut self, id: u64) -> Row {
        const PIECES: [&str; 10] =
            ["\u{feff}", "\n", "\r\n", "\"", ",", "é", " ", "NA", "12", "plain text"];
        let text = (0..self.below(5)).map(|_| PIECES[self.below(PIECES.len())]).collect();
        let amount = (self.below(3) > 0).then(|| self.below(1_000_000) as i64 - 500_000);
        Row { text, id, amount, repetition: 0 }
    }
}

#[derive(
    Clone,
    Debug,
    PartialEq,
    Serialize,
    Deserialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
struct Row {
    text: String,
    id: u64,
    amount: Option<i64>,
    #[serde(skip)]
    repetition: usize,
}

/// Takes records until it has no room.
struct Taken<R> {
    records: Vec<R>,
    room: usize,
}

impl<R> Emit<R> for Taken<R> {
    fn emit(&mut self, record: R) {
        assert!(!self.is_blocked(), "S7: nothing is emitted to a blocked output");
        self.records.push(record);
    }

    fn is_blocked(&self) -> bool {
        self.records.len() == self.room
    }
}

fn context(worker: usize) -> SourceContext {
    let waker = Waker::new(Wake::new(WorkerWake::new(1), 0));
    SourceContext { worker, workers: 1, waker }
}

/// Opens all splits at their positions.
fn open<R: DeserializeOwned + 'static, T: Data>(
    files: &Files<R, T>,
    positions: &[(String, Position)],
) -> Result<Files<R, T>, BoxError> {
    let mut files = files.clone();
    for split in files.splits()? {
        let position = positions.iter().find(|(name, _)| *name == split).map(|(_, at)| *at);
        files.open(&split, position, &context(0))?;
    }
    Ok(files)
}

/// Reads until the source has ended or `room` is used up, with limits from `limit`.
fn read<R: DeserializeOwned + 'static, T: Data>(
    files: &mut Files<R, T>,
    room: usize,
    mut limit: impl FnMut() -> usize,
) -> (Vec<T>, Result<(), String>) {
    let mut taken = Taken { records: Vec::new(), room };
    while !taken.is_blocked() {
        let (limit, before) = (limit(), taken.records.len());
        let left = match files.read(limit, Duration::ZERO, &mut taken) {
            Ok(left) => left,
            Err(error) => return (taken.records, Err(error.to_string())),
        };
        assert!(taken.records.len() - before <= limit);
        match left {
            Read::Ended => break,
            Read::Idle => std::thread::yield_now(),
            _ => {}
        }
    }
    (taken.records, Ok(()))
}

fn read_all<R: DeserializeOwned + Data>(files: &Files<R>) -> (Vec<R>, Result<(), String>) {
    match open(files, &[]) {
        Ok(mut files) => read(&mut files, usize::MAX, || 1_000),
        Err(error) => (Vec::new(), Err(error.to_string())),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A file of rows, in any line ends, with empty lines, compressed in any way.
fn file(draw: &mut Draw, format: Format, rows: &[Row]) -> Vec<u8> {
    let ends_with_crlf = draw.below(2) == 0;
    let mut bytes = Vec::new();
    let mut header = true;
    for row in rows {
        match format {
            Format::Csv => {
                let terminator =
                    if ends_with_crlf { Terminator::CRLF } else { Terminator::Any(b'\n') };
                let mut writer = WriterBuilder::new();
                writer.terminator(terminator).has_headers(std::mem::take(&mut header));
                let mut writer = writer.from_writer(&mut bytes);
                writer.serialize(row).unwrap();
            }
            Format::JsonLines => {
                serde_json::to_writer(&mut bytes, row).unwrap();
                bytes.extend_from_slice(if ends_with_crlf { b"\r\n" } else { b"\n" });
            }
        }
        if draw.below(8) == 0 {
            bytes.extend_from_slice(if ends_with_crlf { b"\r\n\r\n" } else { b"\n" });
        }
    }
    if header && matches!(format, Format::Csv) {
        bytes.extend_from_slice(b"text,id,amount");
    }
    if draw.below(4) == 0 {
        let marked = bytes.split_off(0);
        bytes.extend_from_slice("\u{feff}".as_bytes());
        bytes.extend_from_slice(&marked);
    }
    let cut = draw.below(bytes.len() + 1);
    match draw.below(3) {
        0 => bytes,
        1 => [gzip(&bytes[..cut]), gzip(&bytes[cut..])].concat(),
        _ => [zstd(&bytes[..cut]), zstd(&bytes[cut..])].concat(),
    }
}

#[test]
fn a_source_reopened_after_any_record_goes_on_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..300 {
        let draw = &mut Draw(seed);
        let format = if draw.below(2) == 0 { Format::Csv } else { Format::JsonLines };
        let most = if draw.below(20) == 0 { 5_000 } else { 60 };
        let contents: Vec<Vec<Row>> = (0..1 + draw.below(3))
            .map(|_| (0..draw.below(most)).map(|id| draw.row(id as u64)).collect())
            .collect();
        let paths: Vec<_> = contents
            .iter()
            .enumerate()
            .map(|(index, rows)| {
                write(directory.path(), &index.to_string(), &file(draw, format, rows))
            })
            .collect();
        let repetitions = 1 + draw.below(3);
        let files = Files::new(paths, format)
            .repeat(repetitions, |row: &mut Row, repetition| row.repetition = repetition);
        let expected: Vec<Row> = (0..repetitions)
            .flat_map(|repetition| {
                contents.iter().flatten().map(move |row| Row { repetition, ..row.clone() })
            })
            .collect();

        let (mut found, mut positions) = (Vec::new(), Vec::new());
        for life in 0.. {
            let mut files = open(&files, &positions).unwrap();
            let left = expected.len() - found.len();
            let room = if life == 3 { usize::MAX } else { draw.below(left + 2) };
            let (records, result) = read(&mut files, room, || 1 + draw.below(100));
            assert_eq!(result, Ok(()), "seed {seed}");
            found.extend(records);
            positions = files.positions();
            if life == 3 {
                break;
            }
        }
        assert_eq!(found, expected, "seed {seed}");
        let mut undisturbed = open(&files, &[]).unwrap();
        assert_eq!(read(&mut undisturbed, usize::MAX, || 1_000).0, expected, "seed {seed}");
        assert_eq!(positions, undisturbed.positions(), "seed {seed}");
        assert!(positions.iter().all(|(_, position)| position.done), "seed {seed}");
    }
}

#[test]
fn a_source_reopened_between_two_chunks_goes_on_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let content = "text,id,amount\n".to_owned() + &"a,1,\n".repeat(3 * CHUNK_RECORDS);
    let path = write(directory.path(), "a", content.as_bytes());
    let files = Files::<Row>::csv([path]);
    let mut before = open(&files, &[]).unwrap();
    assert_eq!(read(&mut before, CHUNK_RECORDS, || CHUNK_RECORDS).0.len(), CHUNK_RECORDS);
    let mut after = open(&files, &before.positions()).unwrap();
    assert_eq!(read(&mut after, usize::MAX, || 99).0.len(), 2 * CHUNK_RECORDS);
}

#[test]
fn splits_are_read_in_the_order_of_their_names() {
    let mut files: Files<Row> =
        Files::csv((0..12).map(|file| format!("file-{file}"))).repeat(11, |_, _| {});
    let names = files.splits().unwrap();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    assert_eq!(names[12 * 10 + 3], "0000000010-0000000003-file-3");
    assert_eq!(files.parse(&names[12 * 10 + 3]), Some((10, 3)));
}

#[test]
fn a_split_of_other_files_is_refused() {
    let mut files: Files<Row> = Files::csv(["a"]);
    for split in ["0000000000-0000000000-b", "0000000001-0000000000-a", "0-0-a", "a", ""] {
        let error = files.open(split, None, &context(0)).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{split:?} is no split of this source: give it the same files in the same order"
            )
        );
    }
}

#[test]
fn a_source_without_splits_has_ended() {
    let mut files: Files<Row> = Files::csv(["nowhere"]);
    let mut taken = Taken { records: Vec::new(), room: 1 };
    assert_eq!(files.read(1, Duration::ZERO, &mut taken).unwrap(), Read::Ended);
    assert_eq!(files.positions(), []);
}

#[test]
fn a_blocked_output_gets_nothing_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a", b"text,id,amount\na,1,\nb,2,\n");
    let mut files = open(&Files::<Row>::csv([path]), &[]).unwrap();
    let mut taken = Taken { records: Vec::new(), room: 0 };
    while files.read(9, Duration::ZERO, &mut taken).unwrap() == Read::Idle {
        std::thread::yield_now();
    }
    assert_eq!(files.read(9, Duration::ZERO, &mut taken).unwrap(), Read::More);
    assert_eq!(files.positions()[0].1, Position::default());
    assert_eq!(read(&mut files, 9, || 9).0.len(), 2);
}

/// What is wrong, and where, for each bad content; and how many records come before it.
fn complaint<R: DeserializeOwned + Data>(files: Files<R>, directory: &Path) -> (usize, String) {
    let (records, result) = read_all(&files);
    let message = result.expect_err("the file is bad");
    assert!(!message.contains('\n'), "one line: {message}");
    (records.len(), message.replace(&format!("{}/", directory.display()), ""))
}

#[test]
fn a_malformed_row_of_csv_is_named_by_file_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let bad: [(&[u8], usize, &str); 11] = [
        (b"", 0, "line 1, column 1: the file is empty, a header line was expected"),
        (
            b"text,amount\na,1\n",
            0,
            "line 1, column (id): there is no such column, only \"text, amount\"",
        ),
        (b"(", 0, "line 1, column (text): there is no such column, only \"(\""),
        (
            b"text,id,amount\na,1,\nb,1x,\n",
            1,
            "line 3, column 2 (id): \"1x\" is no u64: invalid digit found in string",
        ),
        (
            b"text,id,amount\r\n\r\n\"a\r\nb\",1,\r\n\r\nb,\"1\n\",\r\n",
            1,
            "line 6, column 2 (id): \"1\\n\" is no u64: invalid digit found in string",
        ),
        (
            b"id,more,text,amount\n1,2,3,4\n1,2\n",
            1,
            "line 3, column 3 (text): the row has 2 fields, the header has 4",
        ),
        (
            b"id,text,amount\n1,2,3,4\n",
            0,
            "line 2, column 4: the row has 4 fields, the header has 3",
        ),
        (b"text,id,amount\na,1,\n\xff,1,\n", 1, "line 3, column 1 (text): invalid UTF-8"),
        (b"text,\xff,amount\na,1,\n", 0, "line 1, column 2: invalid UTF-8"),
        (
            b"text,id,amount\n\n\na,1,7\nb,2,-\n",
            1,
            "line 5, column 3 (amount): \"-\" is no i64: invalid digit found in string",
        ),
        (
            b"text,id,amount\na,\"1,\nb,2,3\n",
            0,
            "line 2, column 3 (amount): the row has 2 fields, the header has 3",
        ),
    ];
    for (content, before, expected) in bad {
        for (name, bytes) in [("p", content.to_vec()), ("g", gzip(content)), ("z", zstd(content))] {
            let path = write(directory.path(), name, &bytes);
            let found = complaint(Files::<Row>::csv([path]), directory.path());
            assert_eq!(found, (before, format!("\"{name}\", {expected}")));
        }
    }
}

#[test]
fn a_malformed_line_of_json_is_named_by_file_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let good = r#"{"text":"a","id":1,"amount":null}"#;
    let bad: [(String, usize, &str); 5] = [
        (
            format!("{good}\n\n{{\"text\":7}}\n"),
            1,
            "line 3, column 9: invalid type: integer `7`, expected a string",
        ),
        (format!("{good}\n{good},\n"), 1, "line 2, column 34: trailing characters"),
        (format!("{good}\n{{}}\n"), 1, "line 2, column 2: missing field `text`"),
        (format!("{good}\n{{\"text\":\"a"), 1, "line 2, column 10: EOF while parsing a string"),
        ("(".to_owned(), 0, "line 1, column 1: expected value"),
    ];
    for (content, before, expected) in bad {
        let path = write(directory.path(), "a", &zstd(content.as_bytes()));
        let found = complaint(Files::<Row>::json_lines([path]), directory.path());
        assert_eq!(found, (before, format!("\"a\", {expected}")));
    }
    let path = write(directory.path(), "a", &[good.as_bytes(), b"\n{\"x\":\"\xff\"}"].concat());
    let found = complaint(Files::<Row>::json_lines([path]), directory.path());
    assert_eq!(found, (1, "\"a\", line 2, column 7: invalid UTF-8".to_owned()));
}

#[test]
fn a_missing_file_is_an_error_before_anything_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let files: Files<Row> = Files::csv([directory.path().join("none")]);
    let expected = "cannot read \"none\": No such file or directory (os error 2)";
    assert_eq!(complaint(files, directory.path()), (0, expected.to_owned()));

    std::fs::create_dir(directory.path().join("folder")).unwrap();
    let files: Files<Row> = Files::csv([directory.path().join("folder")]);
    let expected = "cannot read \"folder\": Is a directory (os error 21)";
    assert_eq!(complaint(files, directory.path()), (0, expected.to_owned()));
}

#[test]
fn compressed_data_that_ends_early_is_an_error_wherever_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Row> = (0..80).map(|id| Draw(id).row(id)).collect();
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    rows.iter().for_each(|row| writer.serialize(row).unwrap());
    let content = writer.into_inner().unwrap();
    for whole in [gzip(&content), zstd(&content)] {
        for length in 0..whole.len() {
            let path = write(directory.path(), "cut", &whole[..length]);
            let (found, result) = read_all(&Files::<Row>::csv([path]));
            let message = result.expect_err("truncated");
            assert!(message.contains("cut\""), "{message}");
            assert_eq!(found, rows[..found.len()], "no row is made up");
        }
    }
    for (name, whole) in [("gzip", gzip(&content)), ("zstd", zstd(&content))] {
        let path = write(directory.path(), "a", &whole[..whole.len() / 2]);
        let (found, message) = complaint(Files::<Row>::csv([path]), directory.path());
        assert!(found < rows.len() && message.starts_with("\"a\", line "), "{message}");
        let expected = format!(": cannot read on: the {name} data is truncated");
        assert!(message.ends_with(&expected), "{message}");

        let two = [whole.clone(), whole[..whole.len() - 5].to_vec()].concat();
        let path = write(directory.path(), "a", &two);
        let (found, _) = complaint(Files::<Row>::csv([path]), directory.path());
        assert!(found >= rows.len(), "the first member is whole");
    }
}

#[test]
fn damaged_data_never_panics() {
    let directory = tempfile::tempdir().unwrap();
    let row = br#"{"text":"some text","id":123456,"amount":-5}"#;
    let content = [&row[..], b"\n"].concat().repeat(50);
    for (seed, whole) in [content.clone(), gzip(&content), zstd(&content)].into_iter().enumerate() {
        let mut draw = Draw(seed as u64);
        for _ in 0..300 {
            let mut bytes = whole.clone();
            let at = draw.below(bytes.len());
            bytes[at] ^= 1 << draw.below(8);
            let path = write(directory.path(), "a", &bytes);
            if let (_, Err(message)) = read_all(&Files::<Row>::json_lines([path])) {
                assert!(message.contains("a\"") && !message.contains('\n'), "{message}");
            }
        }
    }
}

#[test]
fn a_file_shorter_than_the_position_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (long, short) = (b"text,id,amount\na,1,\nb,2,\nc,3,\n", b"text,id,amount\na,1,\n");
    let json = br#"{"text":"a","id":1,"amount":null}"#;
    let path = directory.path().join("a");
    let identity: fn(&[u8]) -> Vec<u8> = |bytes| bytes.to_vec();
    for compress in [identity, gzip, zstd] {
        std::fs::write(&path, compress(long)).unwrap();
        let files = Files::<Row>::csv([&path]);
        let mut before = open(&files, &[]).unwrap();
        assert_eq!(read(&mut before, 2, || 9).0.len(), 2);

        std::fs::write(&path, compress(short)).unwrap();
        let message = match open(&files, &before.positions()) {
            Ok(mut files) => read(&mut files, 9, || 9).1.unwrap_err(),
            Err(error) => error.to_string(),
        };
        let expected = format!(
            "{path:?} was read up to byte 25 but has only 20 bytes: put the file back that the job \
             has begun with, or start anew in an empty state directory"
        );
        assert_eq!(message, expected);

        std::fs::write(&path, compress(json)).unwrap();
        let at = Position { offset: 99, line: 3, ..Position::default() };
        let name = files.name(0, 0);
        let message = match open(&Files::<Row>::json_lines([&path]), &[(name, at)]) {
            Ok(mut files) => read(&mut files, 9, || 9).1.unwrap_err(),
            Err(error) => error.to_string(),
        };
        assert!(message.contains("up to byte 99 but has only 33 bytes"), "{message}");
    }
}

#[test]
fn a_split_that_is_done_is_not_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a", b"text,id,amount\na,1,\n");
    let files = Files::<Row>::csv([&path]);
    let mut before = open(&files, &[]).unwrap();
    assert_eq!(read(&mut before, 9, || 9).0.len(), 1);
    std::fs::remove_file(path).unwrap();
    let mut after = open(&files, &before.positions()).unwrap();
    assert_eq!(read(&mut after, 9, || 9), (vec![], Ok(())));
}

#[test]
fn a_quote_that_is_not_closed_does_not_take_all_memory() {
    let directory = tempfile::tempdir().unwrap();
    let content = [b"text,id,amount\na,1,\n\"".to_vec(), vec![b'x'; 20 << 20]].concat();
    let path = write(directory.path(), "a", &zstd(&content));
    let found = complaint(Files::<Row>::csv([path]), directory.path());
    let expected = "\"a\", line 3: cannot read on: the record is longer than 16 MiB: is a quote not \
                    closed?";
    assert_eq!(found, (1, expected.to_owned()));
}

#[test]
fn records_can_be_any_type_that_a_row_has() {
    #[derive(
        Clone, Debug, PartialEq, Deserialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
    )]
    enum Kind {
        Small,
        Large,
    }
    #[derive(
        Clone, Debug, PartialEq, Deserialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
    )]
    #[serde(deny_unknown_fields)]
    struct Mixed {
        kind: Kind,
        #[serde(rename = "a b", alias = "ab")]
        share: f32,
        yes: bool,
        letter: char,
        #[serde(default)]
        absent: u8,
        missing: Option<String>,
    }
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a", b"ab,kind,letter,yes\n0.5,Large,x,true\n");
    let expected =
        Mixed { kind: Kind::Large, share: 0.5, yes: true, letter: 'x', absent: 0, missing: None };
    assert_eq!(read_all(&Files::csv([path])), (vec![expected], Ok(())));

    let path = write(directory.path(), "a", b"1,2\n3,4\n");
    assert_eq!(read_all(&Files::csv([&path])), (vec![(3_u8, "4".to_owned())], Ok(())));

    let content = b"ab,kind,letter,yes,more\n0.5,Large,x,true,1\n";
    let path = write(directory.path(), "a", content);
    let (_, message) = complaint(Files::<Mixed>::csv([path]), directory.path());
    assert!(message.starts_with("\"a\", line 2, column 5 (more): unknown field"), "{message}");

    let path = write(directory.path(), "a", b"ab,kind,letter,yes\n0.5,Huge,x,true\n");
    let (_, message) = complaint(Files::<Mixed>::csv([path]), directory.path());
    assert!(message.starts_with("\"a\", line 2, column 2 (kind): unknown variant"), "{message}");
}

#[test]
fn the_thread_ends_when_nobody_reads_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let content = "text,id,amount\na,1,\n".to_owned() + &"b,2,\n".repeat(100_000);
    let path = write(directory.path(), "a", content.as_bytes());
    let witness = Arc::new(());
    let alive: Weak<()> = Arc::downgrade(&witness);
    let files = Files::<Row>::csv([path]).repeat(100, move |_, _| {
        let _ = &witness;
    });
    let mut opened = open(&files, &[]).unwrap();
    drop(files);
    assert_eq!(read(&mut opened, 1, || 1).0.len(), 1);
    drop(opened);
    while alive.strong_count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
#[should_panic(expected = "no such year")]
fn a_panic_of_the_thread_is_one_of_the_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a", b"text,id,amount\na,1,\n");
    let files = Files::<Row>::csv([path]).repeat(2, |_, _| panic!("no such year"));
    let _ = read_all(&files);
}

#[test]
fn what_was_parsed_wakes_a_task_that_waits() {
    let directory = tempfile::tempdir().unwrap();
    // So many that the thread cannot end, and wake the task by that, before it was read from.
    let content = "text,id,amount\n".to_owned() + &"a,1,\n".repeat(20 * CHUNK_RECORDS);
    let path = write(directory.path(), "a", &gzip(content.as_bytes()));
    let worker = WorkerWake::new(1);
    worker.adopt();
    let wake = Wake::new(worker.clone(), 0);
    let waker = Waker::new(wake.clone());
    let mut files = Files::<Row>::csv([path]);
    let split = files.splits().unwrap().remove(0);
    files.open(&split, None, &SourceContext { worker: 0, workers: 1, waker }).unwrap();
    let mut taken = Taken { records: Vec::new(), room: usize::MAX };
    // As a task does it: arm, look again, and only then wait. A lost wake-up hangs this test.
    loop {
        wake.arm();
        match files.read(CHUNK_RECORDS, Duration::ZERO, &mut taken).unwrap() {
            Read::Ended => break,
            Read::Idle => {
                let mut woken = false;
                while !woken {
                    worker.take(|_| woken = true);
                    if !woken {
                        std::thread::park();
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(taken.records.len(), 20 * CHUNK_RECORDS);
}

/// What is emitted where rows are malformed, and the lines of those.
fn with_bad(content: &[u8], format: Format, name: &str) -> (Vec<Result<u64, u64>>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), name, content);
    let files = Files::<Row>::new([path], format).bad_records(BadRecords::Emit);
    let mut whole = open(&files, &[]).unwrap();
    let (all, result) = read(&mut whole, usize::MAX, || 7);
    assert_eq!(result, Ok(()));
    // Also from behind each of them.
    for taken in 0..=all.len() {
        let mut before = open(&files, &[]).unwrap();
        assert_eq!(read(&mut before, taken, || 3).0, all[..taken]);
        let mut after = open(&files, &before.positions()).unwrap();
        assert_eq!(read(&mut after, usize::MAX, || 2).0, all[taken..], "after {taken}");
    }
    let said = all.iter().filter_map(|row| row.as_ref().err()).map(ToString::to_string);
    let said = said.map(|said| said.replace(directory.path().to_str().unwrap(), "")).collect();
    let rows = all.iter().map(|row| row.as_ref().map(|row| row.id).map_err(|bad| bad.line));
    (rows.collect(), said)
}

#[test]
fn malformed_rows_are_emitted_among_the_others_with_their_lines() {
    let csv = b"text,id,amount\r\na,1,\r\n\r\nb,x,\r\nc,3\r\n\"d\nd\",4,\r\n\r\n\"e\ne\",y,\r\n\xff,6,\r\ng,7,";
    for content in [csv.to_vec(), gzip(csv), zstd(csv)] {
        let (rows, said) = with_bad(&content, Format::Csv, "a");
        assert_eq!(rows, [Ok(1), Err(4), Err(5), Ok(4), Err(9), Err(11), Ok(7)]);
        let expected = [
            r#""/a", line 4, column 2 (id): "x" is no u64"#,
            r#""/a", line 5, column 3 (amount): the row has 2 fields, the header has 3"#,
            r#""/a", line 9, column 2 (id): "y" is no u64"#,
            r#""/a", line 11, column 1 (text): invalid UTF-8"#,
        ];
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.starts_with(expected), "{said}");
        }
    }
    let json = b"{\"text\":\"a\",\"id\":1}\n\n{\"text\":\"b\",\"id\":-2}\nnothing\n{\"text\":\"d\",\"id\":4}";
    let (rows, said) = with_bad(json, Format::JsonLines, "b");
    assert_eq!(rows, [Ok(1), Err(3), Err(4), Ok(4)], "{said:#?}");
}

#[test]
fn a_missing_column_or_a_broken_file_is_an_error_also_where_malformed_rows_are_emitted() {
    let directory = tempfile::tempdir().unwrap();
    let headless = write(directory.path(), "headless", b"text,amount\na,1\n");
    let whole = gzip(&b"text,id,amount\n".iter().chain(&[b'a'; 1000]).copied().collect::<Vec<_>>());
    let broken = write(directory.path(), "broken", &whole[..whole.len() - 9]);
    for (path, expected) in [(headless, "there is no such column"), (broken, "truncated")] {
        let files = Files::<Row>::csv([path]).bad_records(BadRecords::Emit);
        let (_, result) = read(&mut open(&files, &[]).unwrap(), usize::MAX, || 10);
        let message = result.unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}
