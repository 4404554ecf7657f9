//! Whose state directory this is: the job record, written when the directory is made.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{decode, encode};
use crate::error::{Damage, OpenError};
use crate::object::JOB;
use crate::store::{Store, StoreError};

/// The name of the job record.
pub(crate) const NAME: &str = "job";

/// A job, as its record tells.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Job {
    /// Drawn at random when the record was made: 16 hexadecimal digits.
    pub id: String,
    /// What must be the same in every life, by name.
    pub identity: Vec<(String, String)>,
}

impl Job {
    /// Opens the record of a store, or makes it if the store is empty; then `draw` gives the id.
    ///
    /// ```
    /// use overtake_state::{Job, Memory};
    ///
    /// let store = Memory::new();
    /// let identity = [("input".to_owned(), "flights.csv".to_owned())];
    /// let made = Job::open(&store, &identity, || 7)?;
    /// assert_eq!(made.id, "0000000000000007");
    /// assert_eq!(Job::open(&store, &identity, || 8)?, made);
    ///
    /// let other = [("input".to_owned(), "trains.csv".to_owned())];
    /// assert!(Job::open(&store, &other, || 9).is_err());
    /// # Ok::<(), overtake_state::OpenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the record is that of another job, damaged, or missing while there are other objects; or
    /// the storage fails.
    pub fn open(
        store: &dyn Store,
        identity: &[(String, String)],
        draw: impl FnOnce() -> u64,
    ) -> Result<Job, OpenError> {
        let file = store.place(NAME);
        let bytes = match store.read(NAME) {
            Err(StoreError::Missing { .. }) => return Job::make(store, identity, draw()),
            read => read?,
        };
        let content = JOB.open(&file, &bytes)?;
        let job: Job =
            decode(content).map_err(|why| Damage::Malformed { file, why: why.to_string() })?;
        job.refuse_other(store, identity)?;
        Ok(job)
    }

    fn make(store: &dyn Store, identity: &[(String, String)], id: u64) -> Result<Job, OpenError> {
        if let Some(file) = store.list("")?.into_iter().next() {
            return Err(OpenError::Foreign { directory: store.place(""), file });
        }
        let job = Job { id: format!("{id:016x}"), identity: identity.to_vec() };
        let mut content = vec![];
        encode(&job, &mut content);
        store.put_new(NAME, &JOB.seal(&content))?;
        Ok(job)
    }

    fn refuse_other(
        &self,
        store: &dyn Store,
        identity: &[(String, String)],
    ) -> Result<(), OpenError> {
        let stored: BTreeMap<_, _> = self.identity.iter().cloned().collect();
        let given: BTreeMap<_, _> = identity.iter().cloned().collect();
        let differs = stored.keys().chain(given.keys()).find(|k| stored.get(*k) != given.get(*k));
        let show = |value: Option<&String>| value.cloned().unwrap_or_default();
        differs.map_or(Ok(()), |name| {
            Err(OpenError::OtherJob {
                directory: store.place(""),
                name: name.clone(),
                stored: show(stored.get(name)),
                given: show(given.get(name)),
            })
        })
    }
}

/// Draws an id at random, from the system.
pub fn draw_id() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
