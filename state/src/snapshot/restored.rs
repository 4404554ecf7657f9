//! An opened checkpoint, shared by all workers while they restore.

use std::sync::Arc;

use crate::data::{Data, layout};
use crate::error::{Damage, RestoreError};
use crate::lives::CheckpointId;
use crate::manifest::Manifest;
use crate::segment::{Content, Flight, Frame, Place, Segment, read_flight};
use crate::store::Store;

/// An opened checkpoint: its manifest, and the segments of all workers that took it.
pub struct Restored {
    manifest: Manifest,
    segments: Vec<Segment>,
}

impl Restored {
    /// Opens a checkpoint, and checks every byte of it: what comes after the choice of a checkpoint
    /// can no longer fall back to an older one.
    ///
    /// # Errors
    ///
    /// If something is missing or damaged, or the storage fails.
    pub fn open(store: &Arc<dyn Store>, id: CheckpointId) -> Result<Restored, RestoreError> {
        let manifest = Manifest::open(&**store, id)?;
        let open = |info| {
            let segment = Segment::open(store, info)?;
            segment.check()?;
            Ok(segment)
        };
        let segments = manifest.segments.iter().map(open).collect::<Result<_, RestoreError>>()?;
        Ok(Restored { manifest, segments })
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How many workers took it.
    pub fn workers(&self) -> usize {
        self.segments.len()
    }

    /// The segment of one of the workers that took it.
    pub fn segment(&self, worker: usize) -> &Segment {
        &self.segments[worker]
    }

    /// The frames of a table or edge of an operator in the segment of one of the old workers.
    pub(crate) fn frames<'a>(
        &'a self,
        worker: usize,
        operator: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Frame> {
        let frames = self.segments[worker].frames().iter();
        frames.filter(move |frame| *frame.head.operator == *operator && *frame.head.name == *name)
    }

    /// The batches in flight that one of the old workers captured at one place, in their order.
    ///
    /// # Errors
    ///
    /// If the edge carries another type now, something is damaged, or the storage fails.
    pub fn flights<R: Data>(
        &self,
        worker: usize,
        operator: &str,
        edge: &str,
        place: Place,
    ) -> Result<Vec<Flight<R>>, RestoreError> {
        let mut flights = vec![];
        for frame in self.frames(worker, operator, edge) {
            flights.extend(read_flight::<R>(&self.segments[worker], frame, place)?);
        }
        if !flights.is_empty() {
            self.check_records::<R>(edge)?;
        }
        Ok(flights)
    }

    fn check_records<R: Data>(&self, edge: &str) -> Result<(), RestoreError> {
        let declared = layout::<R>();
        match self.manifest.edges.iter().find(|info| info.name == edge) {
            Some(info) if info.record == declared => Ok(()),
            Some(info) => Err(RestoreError::RecordChanged {
                edge: edge.into(),
                stored: Box::new(info.record.clone()),
                declared: Box::new(declared),
            }),
            None => Err(Damage::Malformed {
                file: Manifest::name(self.manifest.id),
                why: format!("it does not list edge \"{edge}\", which has batches in flight"),
            }
            .into()),
        }
    }

    /// Is the job still one that can take all of this? `operators` and `edges` are what it has.
    ///
    /// # Errors
    ///
    /// If there is state of an operator, or a batch in flight on an edge, that it does not have.
    pub fn check_graph(&self, operators: &[&str], edges: &[&str]) -> Result<(), RestoreError> {
        for operator in &self.manifest.operators {
            if !operator.tables.is_empty() && !operators.contains(&operator.name.as_str()) {
                return Err(RestoreError::OperatorGone { operator: operator.name.clone() });
            }
        }
        for frame in self.segments.iter().flat_map(Segment::frames) {
            let is_flight = matches!(frame.head.content, Content::Flight { .. });
            if is_flight && frame.records > 0 && !edges.contains(&&*frame.head.name) {
                return Err(RestoreError::EdgeGone { edge: frame.head.name.to_string() });
            }
        }
        Ok(())
    }
}
