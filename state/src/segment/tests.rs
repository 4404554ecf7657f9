use std::sync::Arc;

use super::*;
use crate::error::RestoreError;
use crate::store::{Memory, Store};

const ID: CheckpointId = CheckpointId { generation: 1, epoch: 7 };

fn flight(place: Place, epoch: u64) -> FlightHead {
    FlightHead { operator: "bill".into(), edge: "flights>bill#0".into(), place, epoch, event: -3 }
}

fn written(store: &Memory) -> SegmentInfo {
    let mut writer = SegmentWriter::create(store, ID, 2).unwrap();
    write_flight(&mut writer, flight(Place::Inbox { from: 1 }, 7), &["a".to_owned()]).unwrap();
    let head = FrameHead {
        operator: "bill".into(),
        name: "invoices".into(),
        content: Content::Table { first: 0, last: u64::MAX },
    };
    write_rows(&mut writer, &head, &[1u64, 2, 3], &[10i64, 20, 30]).unwrap();
    let more = ["b".to_owned(), "a string that is out of line".to_owned()];
    write_flight(&mut writer, flight(Place::Inbox { from: 1 }, 6), &more).unwrap();
    writer.finish().unwrap()
}

type Content4 = (Vec<Frame>, Vec<(u64, i64)>, Vec<Flight<String>>);

fn read(store: &Memory, info: &SegmentInfo) -> Result<Content4, RestoreError> {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let segment = Segment::open(&store, info)?;
    segment.check()?;
    let mut rows = vec![];
    let mut flights = vec![];
    for frame in segment.frames() {
        match frame.head.content {
            Content::Table { .. } => rows.extend(read_rows::<u64, i64>(&segment, frame)?),
            _ => flights.extend(read_flight(&segment, frame, Place::Inbox { from: 1 })?),
        }
    }
    Ok((segment.frames().to_vec(), rows, flights))
}

#[test]
fn g2_what_is_written_is_read_in_its_order() {
    let store = Memory::new();
    let info = written(&store);
    assert_eq!(info.name, format!("segments/{:020}-{:020}-00002", 1, 7));
    assert_eq!(segment_id(&info.name), Some(ID));
    assert_eq!((info.worker, info.frames), (2, 3));
    let (frames, rows, flights) = read(&store, &info).unwrap();
    assert!(frames.iter().all(|frame| frame.offset % 16 == 0));
    assert_eq!(rows, [(1, 10), (2, 20), (3, 30)]);
    assert_eq!(flights.iter().map(|f| f.epoch).collect::<Vec<_>>(), [7, 6]);
    assert_eq!(flights[1].records, ["b", "a string that is out of line"]);
    assert!(flights.iter().all(|flight| flight.event == -3));
}

#[test]
fn g1_every_flipped_bit_is_an_error_or_changes_nothing() {
    let store = Memory::new();
    let info = written(&store);
    let bytes = store.read(&info.name).unwrap();
    let whole = read(&store, &info).unwrap();
    let mut harmless = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        store.tamper(&info.name, Some(flipped));
        match read(&store, &info) {
            Ok(content) => {
                assert_eq!(content, whole, "bit {bit}");
                harmless += 1;
            }
            Err(error) => assert!(error.to_string().contains(&info.name), "{error}"),
        }
    }
    // Only zeros between payloads are nobody's.
    assert!(harmless < 16 * 8 * 3, "{harmless} bits of {}", bytes.len() * 8);
}

#[test]
fn g1_every_cut_is_an_error() {
    let store = Memory::new();
    let info = written(&store);
    let bytes = store.read(&info.name).unwrap();
    for len in 0..bytes.len() {
        store.tamper(&info.name, Some(bytes[..len].to_vec()));
        let error = read(&store, &info).unwrap_err();
        assert!(matches!(error, RestoreError::Damaged(_)), "{error}");
    }
    store.tamper(&info.name, None);
    let error = read(&store, &info).unwrap_err().to_string();
    assert_eq!(error, format!("\"{}\" is missing: put back a copy of it", info.name));
}

#[test]
fn g1_a_whole_segment_of_another_checkpoint_is_an_error() {
    let store = Memory::new();
    let info = written(&store);
    let mut writer = SegmentWriter::create(&store, CheckpointId { epoch: 8, ..ID }, 2).unwrap();
    write_flight(&mut writer, flight(Place::Restored, 1), &[0u64]).unwrap();
    let other = writer.finish().unwrap();
    store.tamper(&info.name, Some(store.read(&other.name).unwrap()));
    let taken = SegmentInfo { bytes: other.bytes, ..info };
    assert!(read(&store, &taken).unwrap_err().to_string().contains("not the one"));
}

#[test]
fn heavy_rows_are_written_in_many_frames() {
    let store = Memory::new();
    let mut writer = SegmentWriter::create(&store, ID, 0).unwrap();
    let head = FrameHead { operator: "o".into(), name: "t".into(), content: Content::Broadcast };
    let keys: Vec<u32> = (0..200).collect();
    let values: Vec<String> = keys.iter().map(|key| "x".repeat(40_000 + *key as usize)).collect();
    write_rows(&mut writer, &head, &keys, &values).unwrap();
    let info = writer.finish().unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let segment = Segment::open(&store, &info).unwrap();
    assert!(segment.frames().len() > 5, "{}", segment.frames().len());
    let rows: Vec<(u32, String)> = segment
        .frames()
        .iter()
        .flat_map(|frame| read_rows(&segment, frame).unwrap().collect::<Vec<_>>())
        .collect();
    assert!(rows.into_iter().eq(keys.into_iter().zip(values)));
}

#[test]
fn a_name_that_is_not_quite_ours_is_not_ours() {
    let name = segment_name(ID, 3);
    for other in [format!("{name}~"), format!("{name} copy"), name.replace("-0", "-"), "".into()] {
        assert_eq!(segment_id(&other), None, "{other}");
    }
}
