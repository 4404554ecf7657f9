//! A source of records that are in memory: for examples and tests.

use std::sync::Arc;
use std::time::Duration;

use overtake_state::Data;

use crate::error::BoxError;
use crate::source::{Emit, Read, Source, SourceContext};

/// The records of a list, in their order, from one split.
#[derive(Clone, Debug)]
pub struct Items<R> {
    items: Arc<[R]>,
    next: Option<usize>,
}

impl<R> Items<R> {
    pub(crate) fn new(items: Vec<R>) -> Items<R> {
        Items { items: items.into(), next: None }
    }
}

impl<R: Data> Source for Items<R> {
    type Record = R;
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok(vec!["items".to_owned()])
    }

    fn open(
        &mut self,
        split: &str,
        position: Option<u64>,
        _: &SourceContext,
    ) -> Result<(), BoxError> {
        let next = position.unwrap_or(0) as usize;
        if next > self.items.len() {
            let has = self.items.len();
            return Err(format!("split \"{split}\" has {has} records, and {next} were read").into());
        }
        self.next = Some(next);
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<R>,
    ) -> Result<Read, BoxError> {
        let Some(next) = &mut self.next else { return Ok(Read::Ended) };
        for item in self.items[*next..].iter().take(limit) {
            if out.is_blocked() {
                return Ok(Read::More);
            }
            out.emit(item.clone());
            *next += 1;
        }
        Ok(if *next == self.items.len() { Read::Ended } else { Read::More })
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.next.iter().map(|next| ("items".to_owned(), *next as u64)).collect()
    }
}
