//! Files: CSV and JSON lines to read, CSV part files to write.
//!
//! ```text
//!   a.csv.gz ─┐ decompress, parse          chunks of records           emit
//!   b.csv    ─┴─▶ a thread of the source ──────────────────▶ a worker ──────▶ …
//!
//!      write        blocks of bytes                        .part-…-open-…      hidden, growing
//!   … ──────▶ a worker ──────────▶ a thread of the sink ──▶ .part-…            hidden, prepared
//!                                                            part-…            committed
//! ```
//!
//! No worker ever touches a file. [`Files`] is the source, [`PartFiles`] the sink.

mod append;
mod csv;
mod error;
mod input;
mod json;
mod kept;
mod part;
mod read_ahead;
mod sink;
mod source;

pub use error::{BadRecord, ReadError, WriteError};
pub use sink::PartFiles;
pub use source::{BadRecords, Files, Metadata, Position};
