//! What one task hands over at a barrier, on its way to the writer.

use overtake_state::{Frozen, SegmentWriter, Transaction, WriteError};

use crate::checkpoint::coordinator::Report;
use crate::checkpoint::flight::Flights;

/// Frozen state, in-flight data, and what the sink has yet to commit.
pub(crate) struct Snapshot {
    pub(crate) report: Report,
    pub(crate) tables: Vec<Frozen>,
    pub(crate) flights: Vec<Flights>,
    pub(crate) listed: Vec<Transaction>,
}

impl Snapshot {
    /// Writes all of it. Called on the writer's thread.
    pub(crate) fn write(self, segment: &mut SegmentWriter) -> Result<(), WriteError> {
        for table in self.tables {
            table.write(segment)?;
        }
        for flights in self.flights {
            flights.write(segment)?;
        }
        Ok(())
    }
}
