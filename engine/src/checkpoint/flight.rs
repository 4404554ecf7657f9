//! In-flight data on its way from a worker to a segment, with its record type forgotten.

use std::sync::Arc;

use overtake_state::{Data, FlightHead, Place, SegmentWriter, WriteError, write_flight};

use crate::channel::batch::Piece;

/// The captured batches of one place, in order.
pub(crate) struct Group<R> {
    pub(crate) place: Place,
    pub(crate) pieces: Vec<Piece<R>>,
}

type Write = Box<dyn FnOnce(&mut SegmentWriter) -> Result<(), WriteError> + Send>;

/// What one port of a task has in flight; written on the writer's thread.
pub struct Flights {
    pub(crate) bytes: u64,
    write: Write,
}

impl Flights {
    pub(crate) fn new<R: Data>(
        operator: &Arc<str>,
        edge: &Arc<str>,
        groups: Vec<Group<R>>,
    ) -> Flights {
        let pieces = groups.iter().flat_map(|group| &group.pieces);
        let records: u64 = pieces.map(|piece| piece.as_slice().len() as u64).sum();
        let (operator, edge) = (operator.clone(), edge.clone());
        let write = move |segment: &mut SegmentWriter| {
            for group in groups {
                for piece in group.pieces.iter().filter(|piece| !piece.as_slice().is_empty()) {
                    let head = FlightHead {
                        operator: operator.clone(),
                        edge: edge.clone(),
                        place: group.place,
                        epoch: piece.time.epoch.0,
                        event: piece.time.event,
                    };
                    write_flight(segment, head, piece.as_slice())?;
                }
            }
            Ok(())
        };
        let bytes = records * size_of::<R>() as u64;
        Flights { bytes, write: Box::new(write) }
    }

    pub(crate) fn write(self, segment: &mut SegmentWriter) -> Result<(), WriteError> {
        (self.write)(segment)
    }
}
