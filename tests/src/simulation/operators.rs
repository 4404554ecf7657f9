//! What the operators of simulated jobs do, and what they find wrong while they do it.

use overtake::flow::keyed::Hold;
use overtake::{Broadcast, Map, Output, RestoreError, States, Value};

use super::graph::{Graph, Stage};
use super::outside::Shared;
use super::rows::{DIMENSIONS, Row};
use super::turns;

/// What an operator knows of its world.
#[derive(Clone)]
pub(super) struct Context {
    /// The outside.
    pub(super) shared: Shared,
    /// Rows of each split.
    pub(super) records: u64,
    /// Records of each split of the broadcast stream.
    pub(super) dimensions: u64,
    /// The broadcast stream is slow, once in so many reads.
    pub(super) pauses: u64,
    /// Every life has the same number of workers.
    pub(super) is_fixed: bool,
    /// A task stands between the source of a broadcast stream and its edge.
    pub(super) has_relay: bool,
    /// How many turns a record takes.
    pub(super) turns: u64,
    /// The stage.
    pub(super) stage: u64,
}

impl Context {
    /// The context of a stage.
    pub(super) fn of(&self, stage: usize, graph: &Graph) -> Context {
        let turns = if graph.slow == Some(stage) { self.turns } else { 0 };
        Context { turns, stage: stage as u64, ..self.clone() }
    }

    /// A row is processed.
    fn process(&self, row: &Row) {
        let mut outside = self.shared.lock();
        outside.processed += 1;
        outside.note("row", [self.stage, row.split << 32 | row.pos, row.sum]);
        drop(outside);
        (0..self.turns).for_each(|_| turns::pause());
    }

    fn wrong(&self, what: String) {
        self.shared.lock().wrong(format!("stage {}: {what}", self.stage));
    }
}

/// In which order the rows of a key arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Those of a split in the order of their positions.
    pub(super) by_position: bool,
    /// In the order of their sums, and none is missing.
    pub(super) by_sum: bool,
}

/// Per key: the sum, and the last position of each split.
pub(super) struct Books {
    context: Context,
    order: Order,
    sums: Value<u64, u64>,
    last: Map<u64, u64, u64>,
}

impl Books {
    pub(super) fn open(
        states: &mut States,
        context: Context,
        order: Order,
    ) -> Result<Books, RestoreError> {
        Ok(Books { context, order, sums: states.value("sums")?, last: states.map("last")? })
    }

    /// Adds a row to the sum of its key.
    pub(super) fn count(&self, row: &Row) -> Row {
        self.context.process(row);
        self.look(row);
        let add = |sum: &mut u64| {
            *sum += row.val;
            *sum
        };
        Row { sum: self.sums.update(&row.key, add), ..*row }
    }

    /// Checks that a row follows the one before it.
    pub(super) fn check(&self, row: &Row) -> Row {
        self.context.process(row);
        self.look(row);
        let before = self.sums.update(&row.key, |sum| std::mem::replace(sum, row.sum));
        if self.order.by_sum && before + row.val != row.sum {
            let Row { key, val, sum, .. } = row;
            self.context.wrong(format!("key {key} went from {before} to {sum} by {val}"));
        }
        *row
    }

    fn look(&self, row: &Row) {
        // The two sides of an operator with two inputs, and copies, have an order of their own.
        let lane = row.split << 2 | row.copy << 1 | (row.pos % 2);
        let before = self.last.insert(&row.key, lane, row.pos);
        if self.order.by_position && before.is_some_and(|before| before >= row.pos) {
            let Row { key, split, pos, .. } = row;
            let what = format!("key {key} split {split}: {pos} came after {before:?}");
            self.context.wrong(what);
        }
    }
}

/// What a key has met of each split of the broadcast stream.
type Met = (u64, u64);

/// The functions of an operator that joins rows with a broadcast stream.
#[allow(clippy::type_complexity, reason = "two functions that share state: nobody names them")]
pub(super) fn join(
    states: &mut States,
    context: Context,
    order: Order,
    stage: Stage,
) -> Result<
    (impl FnMut(&Row) + use<>, impl FnMut(&u64, &Row, &mut Output<Row>) + use<>),
    RestoreError,
> {
    let books = Books::open(states, context.clone(), order)?;
    let met: Value<u64, Met> = states.value("met")?;
    let table: Broadcast<u64, u64> = states.broadcast("dimensions")?;
    let known = table.clone();
    let of_table = move |row: &Row| {
        let before = table.insert(&row.split, row.pos + 1).unwrap_or(0);
        context.process(row);
        if before != row.pos {
            let Row { split, pos, .. } = row;
            context
                .shared
                .lock()
                .wrong(format!("broadcast: {pos} of {split} came when {before} was due"));
        }
    };
    let of_rows = move |key: &u64, row: &Row, out: &mut Output<Row>| {
        let first = super::rows::FIRST_DIMENSION;
        let [left, right] = [0, 1].map(|i| known.get(&(first + i)).unwrap_or(0));
        let all = DIMENSIONS * books.context.dimensions;
        if stage.hold() == Hold::UntilEnd && left + right != all {
            books.context.wrong(format!("a row met {left} and {right} of {all} broadcast records"));
        }
        let before = met.update(key, |met| std::mem::replace(met, (left, right)));
        if left < before.0 || right < before.1 {
            let now = (left, right);
            books
                .context
                .wrong(format!("key {key} met {before:?} of the broadcast, later {now:?}"));
        }
        if stage.counts() {
            out.emit(books.count(row));
        } else {
            books.context.process(row);
            books.look(row);
            out.emit(*row);
        }
    };
    Ok((of_table, of_rows))
}
