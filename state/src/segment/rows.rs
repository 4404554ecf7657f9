//! Rows of tables in frames: a column of keys and a column of values, each one archive, so that
//! columns of plain values are written and read as they lie in memory.

use super::{Frame, FrameHead, Segment, SegmentWriter, padding};
use crate::data::{Data, decode_vec, encode_slice};
use crate::error::{RestoreError, WriteError};
use crate::object::le_u64;

/// Before the keys: how many bytes they have, and zeros up to the alignment.
const LEAD: usize = 16;

/// How large a frame of rows should be: large enough to cost nothing, small enough to be read and
/// checked at once.
const FRAME_BYTES: usize = 1 << 20;

/// With how many rows the first frame is tried; what they weigh decides about the next.
const FIRST_ROWS: usize = 64;

/// Writes rows, in as many frames as their size asks for, all with one head.
pub(crate) fn write_rows<K: Data, V: Data>(
    writer: &mut SegmentWriter,
    head: &FrameHead,
    mut keys: &[K],
    mut values: &[V],
) -> Result<(), WriteError> {
    let plain = const { K::COPY_OPTIMIZATION.is_enabled() && V::COPY_OPTIMIZATION.is_enabled() };
    let row_bytes = (size_of::<K>() + size_of::<V>()).max(1);
    let mut rows = if plain { FRAME_BYTES.div_ceil(row_bytes) } else { FIRST_ROWS };
    while !keys.is_empty() {
        let now = rows.min(keys.len());
        let (keys_now, keys_later) = keys.split_at(now);
        let (values_now, values_later) = values.split_at(now);
        let mut bytes = 0;
        writer.frame(head.clone(), now, |out| {
            let start = out.len();
            write_columns(keys_now, values_now, out);
            bytes = out.len() - start;
        })?;
        (keys, values) = (keys_later, values_later);
        rows = (now * FRAME_BYTES / bytes).clamp(1, now.saturating_mul(64));
    }
    Ok(())
}

fn write_columns<K: Data, V: Data>(keys: &[K], values: &[V], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; LEAD]);
    encode_slice(keys, out);
    let bytes = out.len() - start - LEAD;
    out[start..start + 8].copy_from_slice(&(bytes as u64).to_le_bytes());
    out.resize(out.len() + padding(bytes), 0);
    encode_slice(values, out);
}

/// Reads the rows of a frame.
pub(crate) fn read_rows<K: Data, V: Data>(
    segment: &Segment,
    frame: &Frame,
) -> Result<impl Iterator<Item = (K, V)> + use<K, V>, RestoreError> {
    let payload = segment.payload(frame)?;
    let columns = payload.get(LEAD..).and_then(|columns| {
        let bytes = usize::try_from(le_u64(&payload, 0)).ok()?;
        let keys = columns.get(..bytes)?;
        Some((keys, columns.get(bytes + padding(bytes)..)?))
    });
    let (keys, values) = columns.ok_or_else(|| segment.malformed("rows without columns"))?;
    let keys = decode_vec::<K>(keys).map_err(|why| segment.malformed(why))?;
    let values = decode_vec::<V>(values).map_err(|why| segment.malformed(why))?;
    if keys.len() as u64 != frame.records || values.len() as u64 != frame.records {
        return Err(segment.malformed("columns of unequal length").into());
    }
    Ok(keys.into_iter().zip(values))
}
