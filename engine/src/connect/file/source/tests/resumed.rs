//! Files that were changed, mended or added to between two lives.

use super::*;

/// What a source says that goes on from these positions; what it emits if it says nothing.
fn resumed(files: &Files<Row>, from: &[(String, Position)]) -> Result<Vec<Row>, String> {
    let mut files = open(files, from).map_err(|error| error.to_string())?;
    let (rows, result) = read(&mut files, usize::MAX, || 9);
    result.map(|()| rows)
}

fn csv_of(rows: &[&str]) -> Vec<u8> {
    let lines = std::iter::once(&"text,id,amount").chain(rows);
    lines.flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

#[test]
fn a_file_that_was_changed_before_the_position_is_an_error_and_after_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let whole = csv_of(&["a,1,", "\"b\nb\",2,", "c,3,", "d,4,"]);
    let two = csv_of(&["a,1,", "\"b\nb\",2,"]).len();
    let jsons: Vec<u8> = (1..5)
        .flat_map(|id| format!("{{\"text\":\"x\",\"id\":{id},\"amount\":null}}\n").into_bytes())
        .collect();
    let identity: fn(&[u8]) -> Vec<u8> = |bytes| bytes.to_vec();
    let cases = [(Format::Csv, &whole, two), (Format::JsonLines, &jsons, jsons.len() / 2)];
    for (format, whole, position) in cases {
        let files = Files::<Row>::new([&path], format);
        for compress in [identity, gzip, zstd] {
            std::fs::write(&path, compress(whole)).unwrap();
            let mut before = open(&files, &[]).unwrap();
            let (first, _) = read(&mut before, 2, || 9);
            let from = before.positions();
            let rest = resumed(&files, &from).unwrap();
            assert_eq!((first.len(), rest.len(), from[0].1.offset), (2, 2, position as u64));

            for changed in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[changed] ^= 1;
                std::fs::write(&path, compress(&bytes)).unwrap();
                let expected = format!(
                    "{path:?} was changed before byte {position}, up to which it was read: put the \
                     file back that the job has begun with, or start anew in an empty state \
                     directory"
                );
                let refused = resumed(&files, &from).err();
                // After it, whatever is wrong is wrong with a row.
                assert_eq!(refused == Some(expected), changed < position, "byte {changed}");
            }
        }
    }
}

#[test]
fn rows_after_the_position_may_be_mended_and_added() {
    let directory = tempfile::tempdir().unwrap();
    let broken = csv_of(&["a,1,", "b,2,", "c,?,", "d,4,"]);
    let path = write(directory.path(), "a", &broken);
    let files = Files::<Row>::csv([&path]);
    let mut before = open(&files, &[]).unwrap();
    let (rows, result) = read(&mut before, usize::MAX, || 9);
    assert!(rows.len() == 2 && result.unwrap_err().contains("\"?\" is no u64"));
    std::fs::write(&path, csv_of(&["a,1,", "b,2,", "c,3,", "d,4,", "e,5,"])).unwrap();
    let ids: Vec<u64> =
        resumed(&files, &before.positions()).unwrap().iter().map(|r| r.id).collect();
    assert_eq!(ids, [3, 4, 5]);
}

#[test]
fn every_file_that_was_begun_is_compared_before_anything_is_emitted() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> =
        ["a", "b"].map(|name| write(directory.path(), name, &csv_of(&["a,1,", "b,2,"]))).into();
    let files = Files::<Row>::csv(&paths);
    // As after a rescale: two workers had each begun one.
    let begun = |file| {
        let mut alone = files.clone();
        let split = alone.splits().unwrap().swap_remove(file);
        alone.open(&split, None, &context(0)).unwrap();
        assert_eq!(read(&mut alone, 1, || 1).0.len(), 1);
        alone.positions().remove(0)
    };
    let from = [begun(0), begun(1)];
    assert_eq!(resumed(&files, &from).unwrap().len(), 2);
    std::fs::write(&paths[1], csv_of(&["A,1,", "b,2,"])).unwrap();
    let mut after = open(&files, &from).unwrap();
    let (rows, result) = read(&mut after, usize::MAX, || 9);
    assert!(rows.is_empty() && result.unwrap_err().contains("was changed before byte 20"));
}

#[test]
fn a_last_row_without_a_line_end_must_not_go_on_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let mut whole = csv_of(&["a,1,"]);
    whole.pop();
    let json = r#"{"text":"a","id":1,"amount":null}"#;
    for (format, whole) in [(Format::Csv, whole), (Format::JsonLines, json.into())] {
        std::fs::write(&path, &whole).unwrap();
        let files = Files::<Row>::new([&path], format);
        let mut before = open(&files, &[]).unwrap();
        assert_eq!(read(&mut before, 1, || 1).0.len(), 1);
        let mut from = before.positions();
        // As if the checkpoint had come before somebody saw that nothing follows.
        from[0].1.done = false;
        assert_eq!(from[0].1.offset, whole.len() as u64);
        assert_eq!(resumed(&files, &from), Ok(vec![]));

        let next = if whole == json.as_bytes() { json } else { "b,2," };
        let row = format!("\n{next}");
        for (added, rows) in [("\n", Some(0)), ("\r\n", Some(0)), (&row, Some(1)), ("5", None)] {
            std::fs::write(&path, [&whole, added.as_bytes()].concat()).unwrap();
            match (resumed(&files, &from), rows) {
                (Ok(found), Some(rows)) => assert_eq!(found.len(), rows, "{added:?}"),
                (Err(error), None) => assert_eq!(
                    error,
                    format!(
                        "{path:?} ended at byte {} without a line end, and its last row goes on \
                         there now: put a line end there, or start anew in an empty state directory",
                        whole.len()
                    )
                ),
                (found, rows) => panic!("{found:?}, expected {rows:?}"),
            }
        }
    }
}

#[test]
fn an_untouched_plain_file_is_not_read_again_and_any_touched_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a", &csv_of(&["a,1,", "b,2,"]));
    let files = Files::<Row>::csv([&path]);
    let mut before = open(&files, &[]).unwrap();
    assert_eq!(read(&mut before, 1, || 1).0.len(), 1);
    let mut from = before.positions();
    assert_eq!(from[0].1.metadata, None, "it was written a moment ago");

    // Who reads it again sees that the checksum is another one.
    from[0].1.checksum ^= 1;
    let input = || Input::open(&path, &Arc::default()).unwrap();
    let settled = Some(Metadata::of(&std::fs::metadata(&path).unwrap()));
    from[0].1.metadata = settled;
    while input().metadata().is_none() {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert_eq!(input().metadata(), settled);
    assert_eq!(resumed(&files, &from).unwrap().len(), 1);

    let touched: [fn(&mut Metadata); 5] = [
        |of| of.device += 1,
        |of| of.inode += 1,
        |of| of.length += 1,
        |of| of.modified_ns += 1,
        |of| of.changed_ns += 1,
    ];
    for touch in touched {
        let mut from = from.clone();
        touch(from[0].1.metadata.as_mut().unwrap());
        assert!(resumed(&files, &from).unwrap_err().contains("was changed before byte 20"));
    }
    // The same bytes, written once more.
    std::fs::write(&path, csv_of(&["a,1,", "b,2,"])).unwrap();
    assert!(resumed(&files, &from).unwrap_err().contains("was changed before byte 20"));
    from[0].1.checksum ^= 1;
    assert_eq!(resumed(&files, &from).unwrap().len(), 1);
}
