//! The state of one task on one worker, by name.
//!
//! # Invariants
//!
//! * **N1**: a keyed row is on the worker that owns its hash, an entry on the worker that owns the
//!   hash of its id: each exactly once, for any two numbers of workers before and after.
//! * **N2**: a table of the checkpoint that nobody declares, or declares as something else, is an
//!   error: state is never dropped in silence.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::{Frozen, Restored, Write};
use crate::broadcast::Broadcast;
use crate::data::{Data, Key, Layout, decode_vec, encode_slice, layout};
use crate::entries::{Entries, Entry, Rows};
use crate::error::{ReadError, RestoreError, WriteError};
use crate::hash::{hash, hash_range, owner};
use crate::keyed::{List, Map, Shared, Value};
use crate::manifest::{TableInfo, TableKind};
use crate::segment::{Content, FrameHead, SegmentWriter, read_rows, write_rows};
use crate::table::Table;

/// A large table is cut into pieces of about this size, by ranges of the hash, so that each worker
/// of a later restore reads what it needs.
const PIECE_BYTES: usize = 1 << 20;

/// Into how many pieces a worker's table is cut at most.
const PIECES_MAX: usize = 64;

/// The registry of one task's state on one worker: makes its tables, restores and freezes them.
pub struct States {
    operator: String,
    worker: usize,
    workers: usize,
    restored: Option<Arc<Restored>>,
    tables: Vec<Declared>,
}

/// A declared table, whatever its types.
struct Declared {
    info: TableInfo,
    /// The table itself, `Rc<RefCell<Table<K, V>>>`; of entries nothing.
    table: Box<dyn Any>,
    /// Bytes of memory that it takes, without what its rows hold elsewhere.
    memory: Box<dyn Fn() -> usize>,
    freeze: Box<dyn Fn() -> Frozen>,
}

impl States {
    /// The state of an operator on one of so many workers. Tables are restored as they are
    /// declared.
    pub fn new(
        operator: &str,
        worker: usize,
        workers: usize,
        restored: Option<Arc<Restored>>,
    ) -> States {
        States { operator: operator.into(), worker, workers, restored, tables: vec![] }
    }

    /// Declares a value per key.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn value<K: Key, V: Data>(&mut self, name: &str) -> Result<Value<K, V>, RestoreError> {
        self.keyed(name, TableKind::Value, vec![layout::<K>(), layout::<V>()]).map(Value)
    }

    /// Declares a list per key.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn list<K: Key, V: Data>(&mut self, name: &str) -> Result<List<K, V>, RestoreError> {
        let layouts = vec![layout::<K>(), layout::<V>()];
        self.keyed::<K, VecDeque<V>>(name, TableKind::List, layouts).map(List)
    }

    /// Declares a map per key. The archived form of the map's own keys must have an order too, as
    /// `#[rkyv(derive(PartialEq, Eq, PartialOrd, Ord))]` gives it.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn map<K: Key, M: Key + Ord, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<Map<K, M, V>, RestoreError>
    where
        BTreeMap<M, V>: Data,
    {
        let layouts = vec![layout::<K>(), layout::<M>(), layout::<V>()];
        self.keyed::<K, BTreeMap<M, V>>(name, TableKind::Map, layouts).map(Map)
    }

    /// Declares a table of which every worker has a copy. Worker *j* restores that of old worker
    /// *j* modulo their number.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn broadcast<K: Key, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<Broadcast<K, V>, RestoreError> {
        let layouts = vec![layout::<K>(), layout::<V>()];
        let info = self.check(name, TableKind::Broadcast, layouts)?;
        let mut table = Table::<K, V>::new();
        if let Some(restored) = &self.restored {
            let from = self.worker % restored.workers();
            for frame in restored.frames(from, &self.operator, name) {
                for (key, value) in read_rows(restored.segment(from), frame)? {
                    table.insert(&key, value);
                }
            }
        }
        let table = Rc::new(RefCell::new(table));
        let shared = Rc::clone(&table);
        let head = self.head(name, Content::Broadcast);
        self.declare(info, &table, move || {
            let (keys, values) = shared.borrow().columns();
            let head = head.clone();
            let write: Write = Box::new(move |w| write_rows(w, &head, &keys, &values));
            (shared.borrow().len() * (size_of::<K>() + size_of::<V>()), write)
        });
        Ok(Broadcast(table))
    }

    /// Declares operator state: entries, each on the worker that owns the hash of its id.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn entries(&mut self, name: &str) -> Result<Entries, RestoreError> {
        let (worker, workers) = (self.worker, self.workers);
        self.entries_where(name, |id| owner(hash(&id.to_owned()), workers) == worker)
    }

    /// Declares operator state of which this worker restores the entries that are `mine`: exactly
    /// one worker must say so of each id.
    ///
    /// # Errors
    ///
    /// If the name is taken, the table was something else, or what is stored is damaged.
    pub fn entries_where(
        &mut self,
        name: &str,
        mine: impl Fn(&str) -> bool,
    ) -> Result<Entries, RestoreError> {
        let info = self.check(name, TableKind::Entries, vec![])?;
        let entries = Entries::new(&self.operator, name);
        if let Some(restored) = &self.restored {
            let mut rows = entries.rows.borrow_mut();
            for worker in 0..restored.workers() {
                let segment = restored.segment(worker);
                for frame in restored.frames(worker, &self.operator, name) {
                    let stored = decode_vec::<(String, Entry)>(&segment.payload(frame)?)
                        .map_err(|why| segment.malformed(why))?;
                    let stored = stored.into_iter().filter(|(id, _)| mine(id));
                    stored.for_each(|(id, entry)| rows.insert(id, entry));
                }
            }
        }
        let shared = Rc::clone(&entries.rows);
        let head = self.head(name, Content::Entries);
        self.declare(info, &entries.rows, move || {
            let (rows, bytes) = (shared.borrow().to_vec(), shared.borrow().bytes());
            let head = head.clone();
            let write: Write = Box::new(move |writer| {
                writer.frame(head, rows.len(), |out| encode_slice(&rows, out))
            });
            (bytes, write)
        });
        Ok(entries)
    }

    /// The value of a key in a table on this worker: of a table of values or of a broadcast table
    /// the value, of lists a `VecDeque`, of maps a `BTreeMap`. None if the key has none.
    ///
    /// # Errors
    ///
    /// If there is no such table, or it is of other types.
    pub fn read<K: Key, V: Clone + 'static>(
        &self,
        table: &str,
        key: &K,
    ) -> Result<Option<V>, ReadError> {
        let operator = || self.operator.clone();
        let Some(declared) = self.tables.iter().find(|declared| declared.info.name == table) else {
            let known = self.tables.iter().map(|declared| declared.info.name.clone()).collect();
            let (operator, table) = (operator(), table.to_owned());
            return Err(ReadError::NoTable { operator, table, known });
        };
        match declared.table.downcast_ref::<Shared<K, V>>() {
            Some(rows) => Ok(rows.borrow().get(key).cloned()),
            None => Err(ReadError::OtherTypes {
                operator: operator(),
                table: table.to_owned(),
                kind: declared.info.kind.name(),
                stored: declared.info.layouts.iter().map(|layout| layout.name.clone()).collect(),
            }),
        }
    }

    /// Bytes of memory that the tables on this worker take, without what their rows hold elsewhere
    /// (the text of a `String`).
    pub fn memory(&self) -> usize {
        self.tables.iter().map(|table| (table.memory)()).sum()
    }

    /// What the manifest says about these tables.
    pub fn tables(&self) -> Vec<TableInfo> {
        self.tables.iter().map(|table| table.info.clone()).collect()
    }

    /// Copies all tables as they are now, for the writer.
    pub fn freeze(&self) -> Vec<Frozen> {
        self.tables.iter().map(|table| (table.freeze)()).collect()
    }

    /// To be called when the operator has declared its tables: lets go of the checkpoint.
    ///
    /// # Errors
    ///
    /// If the checkpoint holds a table that the operator has not declared (N2).
    pub fn check_all_restored(&mut self) -> Result<(), RestoreError> {
        let Some(restored) = self.restored.take() else { return Ok(()) };
        let stored = restored.manifest().operator(&self.operator);
        let mut stored = stored.into_iter().flat_map(|operator| &operator.tables);
        let gone = |name: &String| self.tables.iter().all(|table| table.info.name != *name);
        match stored.find(|table| gone(&table.name)) {
            Some(table) => Err(RestoreError::TableGone {
                operator: self.operator.clone(),
                table: table.name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn keyed<K: Key, V: Data>(
        &mut self,
        name: &str,
        kind: TableKind,
        layouts: Vec<Layout>,
    ) -> Result<Shared<K, V>, RestoreError> {
        let info = self.check(name, kind, layouts)?;
        let table = Rc::new(RefCell::new(self.restore_rows(name)?));
        let shared = Rc::clone(&table);
        let head = self.head(name, Content::Table { first: 0, last: 0 });
        let (worker, workers) = (self.worker, self.workers);
        self.declare(info, &table, move || {
            let (keys, values) = shared.borrow().columns();
            let bytes = keys.len() * (size_of::<K>() + size_of::<V>());
            let count = (bytes / PIECE_BYTES).clamp(1, PIECES_MAX);
            let pieces = Pieces { head: head.clone(), worker, workers, count };
            let write: Write = Box::new(move |writer| pieces.write(writer, keys, values));
            (bytes, write)
        });
        Ok(table)
    }

    /// The rows of a keyed table that this worker owns now (N1).
    fn restore_rows<K: Key, V: Data>(&self, name: &str) -> Result<Table<K, V>, RestoreError> {
        let mut table = Table::new();
        let mine = hash_range(self.worker, self.workers);
        let Some(restored) = &self.restored else { return Ok(table) };
        for worker in 0..restored.workers() {
            for frame in restored.frames(worker, &self.operator, name) {
                let Content::Table { first, last } = frame.head.content else { continue };
                if first > *mine.end() || last < *mine.start() {
                    continue;
                }
                for (key, value) in read_rows(restored.segment(worker), frame)? {
                    if mine.contains(&hash(&key)) {
                        table.insert(&key, value);
                    }
                }
            }
        }
        Ok(table)
    }

    /// Is a table declared once, and as it was stored?
    fn check(
        &self,
        name: &str,
        kind: TableKind,
        layouts: Vec<Layout>,
    ) -> Result<TableInfo, RestoreError> {
        let (operator, table) = (self.operator.clone(), name.to_owned());
        if self.tables.iter().any(|table| table.info.name == name) {
            return Err(RestoreError::DeclaredTwice { operator, table });
        }
        let declared = TableInfo { name: name.into(), kind, layouts };
        let stored = self.restored.as_ref().and_then(|r| r.manifest().operator(&self.operator));
        let Some(stored) = stored.and_then(|o| o.tables.iter().find(|t| t.name == name)) else {
            return Ok(declared);
        };
        if stored.kind != kind {
            let (stored, declared) = (stored.kind.name(), kind.name());
            return Err(RestoreError::KindChanged { operator, table, stored, declared });
        }
        let parts: &[&str] =
            if kind == TableKind::Map { &["key", "entry", "value"] } else { &["key", "value"] };
        for ((stored, declared), part) in stored.layouts.iter().zip(&declared.layouts).zip(parts) {
            if stored != declared {
                let (stored, declared) = (Box::new(stored.clone()), Box::new(declared.clone()));
                return Err(RestoreError::TypeChanged { operator, table, part, stored, declared });
            }
        }
        Ok(declared)
    }

    fn declare<T: Memory>(
        &mut self,
        info: TableInfo,
        table: &Rc<RefCell<T>>,
        freeze: impl Fn() -> (usize, Write) + 'static,
    ) {
        let freeze = Box::new(move || {
            let (bytes, write) = freeze();
            Frozen { bytes, write }
        });
        let of = Rc::clone(table);
        let memory = Box::new(move || of.borrow().memory());
        self.tables.push(Declared { info, table: Box::new(Rc::clone(table)), memory, freeze });
    }

    fn head(&self, name: &str, content: Content) -> FrameHead {
        FrameHead { operator: self.operator.as_str().into(), name: name.into(), content }
    }
}

/// What takes memory.
trait Memory: 'static {
    fn memory(&self) -> usize;
}

impl<K: Key, V: 'static> Memory for Table<K, V> {
    fn memory(&self) -> usize {
        self.allocation_size()
    }
}

impl Memory for Rows {
    fn memory(&self) -> usize {
        self.bytes()
    }
}

/// How a keyed table is cut: its worker's range of hashes, in equal parts.
struct Pieces {
    head: FrameHead,
    worker: usize,
    workers: usize,
    count: usize,
}

impl Pieces {
    fn write<K: Key, V: Data>(
        self,
        writer: &mut SegmentWriter,
        keys: Vec<K>,
        values: Vec<V>,
    ) -> Result<(), WriteError> {
        // The pieces of all workers are numbered through, so that cutting is `owner` once more.
        let of = self.workers * self.count;
        let first = self.worker * self.count;
        let mut pieces: Vec<(Vec<K>, Vec<V>)> = (0..self.count).map(|_| (vec![], vec![])).collect();
        for (key, value) in keys.into_iter().zip(values) {
            let piece = owner(hash(&key), of).checked_sub(first);
            let Some(piece) = piece.and_then(|piece| pieces.get_mut(piece)) else {
                let FrameHead { operator, name: table, .. } = self.head;
                let (operator, table) = (operator.to_string(), table.to_string());
                return Err(WriteError::ForeignKey { operator, table, worker: self.worker });
            };
            piece.0.push(key);
            piece.1.push(value);
        }
        for (i, (keys, values)) in pieces.into_iter().enumerate() {
            let range = hash_range(first + i, of);
            let content = Content::Table { first: *range.start(), last: *range.end() };
            write_rows(writer, &FrameHead { content, ..self.head.clone() }, &keys, &values)?;
        }
        Ok(())
    }
}
