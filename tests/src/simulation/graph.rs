//! Random small jobs: their shape, what they should write, and the real flow that they describe.
//!
//! ```text
//!   rows ──▶ in ──▶ s0 ──▶ s1 ──▶ … ──▶ check ──▶ sink, or sinks
//! ```
//!
//! Every stage passes every row on, so that at any moment each row that was read is somewhere, so
//! many times. The name of a task begins with its stage: from the name of an edge follows how many
//! copies of a row will come of one that is in flight on it.

use overtake::Flow;
use overtake::flow::keyed::Hold;
use overtake::flow::stream::BranchOf;

use super::dice::{Dice, mix};
use super::operators::{Books, Context, Order, join};
use super::rows::{Row, SPLITS, Splits};
use super::target::Writing;

/// What is done with a stream of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// To each worker in turn.
    Rebalance,
    /// By a function of the row and the number of workers.
    Exchange,
    /// Even keys take another way than odd ones, and both meet again.
    Diamond,
    /// Small values go on, large ones are a side output; both meet again.
    Side,
    /// Adds up per key.
    Count,
    /// Adds up per key, from two inputs into one state.
    Two,
    /// Rows meet a broadcast stream, and may wait for its end.
    Join(Hold),
    /// The same, and adds up per key.
    Bill(Hold),
    /// Two copies of each row.
    Twice,
}

/// Both ways to meet a broadcast stream.
const HOLDS: [Hold; 2] = [Hold::UntilEnd, Hold::Never];

impl Stage {
    /// Does it add up per key?
    pub(super) fn counts(self) -> bool {
        matches!(self, Stage::Count | Stage::Two | Stage::Bill(_))
    }

    /// Has it a broadcast input?
    pub(super) fn joins(self) -> bool {
        matches!(self, Stage::Join(_) | Stage::Bill(_))
    }

    /// Do rows wait for the end of the broadcast stream?
    pub(super) fn hold(self) -> Hold {
        match self {
            Stage::Join(hold) | Stage::Bill(hold) => hold,
            _ => Hold::Never,
        }
    }
}

/// Where the rows end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sinks {
    /// In one sink.
    One,
    /// Even and odd keys in different ones.
    Parity,
    /// Every row in two.
    Both,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Graph {
    /// Consecutive operators are written without a fork between them, as users do: only the job
    /// with the one stage [`Stage::Bill`].
    pub(super) is_plain: bool,
    /// Two sources, whose streams meet in the first task.
    pub(super) has_fan_in: bool,
    /// A task stands between the source of a broadcast stream and its edge.
    pub(super) has_relay: bool,
    /// What is done, in order.
    pub(super) stages: Vec<Stage>,
    /// Where the rows end.
    pub(super) sinks: Sinks,
    /// A stage at which every row takes long.
    pub(super) slow: Option<usize>,
}

/// Most stages of a job.
const STAGES_MAX: u64 = 3;

impl Graph {
    /// Draws a job; every third is the plain one.
    pub(super) fn draw(dice: &mut Dice) -> Graph {
        let slow = dice.pick(&[None, None, Some(0), Some(1)]);
        if dice.one_in(3) {
            let stages = vec![Stage::Bill(dice.pick(&HOLDS))];
            let sinks = Sinks::One;
            let (has_fan_in, has_relay) = (false, false);
            return Graph { is_plain: true, has_fan_in, has_relay, stages, sinks, slow };
        }
        let mut left = vec![
            Stage::Rebalance,
            Stage::Exchange,
            Stage::Diamond,
            Stage::Side,
            Stage::Count,
            Stage::Two,
            Stage::Join(dice.pick(&HOLDS)),
            Stage::Bill(dice.pick(&HOLDS)),
            Stage::Twice,
        ];
        let count = 1 + dice.below(STAGES_MAX);
        let draw = |_| left.remove(dice.below(left.len() as u64) as usize);
        let stages: Vec<Stage> = (0..count).map(draw).collect();
        let sinks = dice.pick(&[Sinks::One, Sinks::Parity, Sinks::Both]);
        let (has_fan_in, has_relay) = (dice.one_in(3), dice.one_in(2));
        // A relay has something to restore only if it is held up.
        let join = stages.iter().position(|stage| stage.joins()).filter(|_| has_relay);
        let slow = join.or(slow);
        Graph { is_plain: false, has_fan_in, has_relay, stages, sinks, slow }
    }

    /// The names of the sinks.
    pub(super) fn sinks(&self) -> &'static [&'static str] {
        match self.sinks {
            Sinks::One => &["out"],
            Sinks::Parity | Sinks::Both => &["even", "odd"],
        }
    }

    /// What a sink has when everything is committed: rows by split, position and copy, sorted.
    pub(super) fn expected(&self, sink: &str, records: u64) -> Vec<(u64, u64, u64)> {
        let copies = if self.stages.contains(&Stage::Twice) { 2 } else { 1 };
        let ids = (0..SPLITS).flat_map(|split| (0..records).map(move |pos| (split, pos)));
        let is_here = |row: Row| {
            self.sinks != Sinks::Parity || row.key.is_multiple_of(2) == (sink == self.sinks()[0])
        };
        let ids = ids.filter(|(split, pos)| is_here(Row::at(*split, *pos)));
        ids.flat_map(|(split, pos)| (0..copies).map(move |copy| (split, pos, copy))).collect()
    }

    /// The last stage that adds up.
    pub(super) fn last_count(&self) -> Option<usize> {
        self.stages.iter().rposition(|stage| stage.counts())
    }

    /// Do copies come after the last stage that adds up? Then two rows have one sum.
    pub(super) fn copies_after_count(&self) -> bool {
        let twice = self.stages.iter().position(|stage| *stage == Stage::Twice);
        twice.is_some_and(|twice| self.last_count().is_none_or(|count| twice > count))
    }

    /// Which stage a task belongs to; `check` and the sinks come after all stages.
    pub(super) fn stage_of(&self, task: &str) -> usize {
        let number = task.strip_prefix('s').and_then(|rest| rest.split('.').next()?.parse().ok());
        let last = self.stages.len();
        number.unwrap_or(match task {
            "in" => 0,
            "check" => last,
            _ => last + 1,
        })
    }

    /// How many rows in the sinks come of one row on its way to this stage.
    pub(super) fn copies_from(&self, stage: usize) -> u64 {
        let of_stages = self.stages.iter().skip(stage).filter(|stage| **stage == Stage::Twice);
        let of_sinks = u32::from(stage <= self.stages.len() && self.sinks == Sinks::Both);
        2u64.pow(of_stages.count() as u32 + of_sinks)
    }

    /// Describes the job to the engine.
    pub(super) fn describe(&self, flow: &mut Flow, context: &Context) {
        if self.is_plain { self.describe_plain(flow, context) } else { self.build(flow, context) }
    }

    /// Without forks: the source, two keyed tasks, the sink fused with the second.
    fn describe_plain(&self, flow: &mut Flow, context: &Context) {
        let (shared, records) = (&context.shared, context.records);
        let dimensions = Splits::dimensions(shared, context.dimensions, context.pauses);
        let dimensions = flow.source("s0.dimensions", dimensions);
        let (bill, check) = (context.of(0, self), context.of(1, self));
        let stage = self.stages[0];
        let order = Order { by_position: true, by_sum: false };
        flow.source("rows", Splits::rows(shared, 0..SPLITS, records))
            .key_by(|row: &Row| row.key)
            .process_with_broadcast("s0", dimensions, stage.hold(), move |states| {
                join(states, bill, order, stage)
            })
            .key_by(|row: &Row| row.key)
            .process("check", move |states| {
                let order = Order { by_position: true, by_sum: true };
                let books = Books::open(states, check, order)?;
                Ok(move |_: &u64, row: &Row, out: &mut overtake::Output<Row>| {
                    out.emit(books.check(row));
                })
            })
            .sink("out", Writing::new(shared, "out"));
    }

    /// With a fork after each stage, so that all streams have one type.
    fn build(&self, flow: &mut Flow, context: &Context) {
        let (shared, records) = (&context.shared, context.records);
        let mut order = Order { by_position: true, by_sum: false };
        let mut stream = if self.has_fan_in {
            let left = flow.source("left", Splits::rows(shared, 0..SPLITS / 2, records));
            let right = flow.source("right", Splits::rows(shared, SPLITS / 2..SPLITS, records));
            order.by_position &= context.is_fixed;
            left.union("in", right).fork().stream()
        } else {
            flow.source("rows", Splits::rows(shared, 0..SPLITS, records)).fork().stream()
        };
        for (i, stage) in self.stages.iter().enumerate() {
            let context = context.of(i, self);
            stream = add(flow, stream, &format!("s{i}"), *stage, context, &mut order);
        }
        let check = context.of(self.stages.len(), self);
        let checked = stream.key_by(|row: &Row| row.key).process("check", move |states| {
            let books = Books::open(states, check, order)?;
            Ok(move |_: &u64, row: &Row, out: &mut overtake::Output<Row>| {
                out.emit(books.check(row));
            })
        });
        if self.sinks == Sinks::One {
            return checked.sink("out", Writing::new(shared, "out"));
        }
        let forked = checked.fork();
        for (i, name) in self.sinks().iter().enumerate() {
            let has_all = self.sinks == Sinks::Both;
            let mine = move |row: &Row| has_all || row.key % 2 == i as u64;
            forked.stream().filter(mine).sink(name, Writing::new(shared, name));
        }
    }
}

/// Adds a stage to a stream.
fn add(
    flow: &mut Flow,
    stream: BranchOf<Row>,
    name: &str,
    stage: Stage,
    context: Context,
    order: &mut Order,
) -> BranchOf<Row> {
    let of = |part: &str| format!("{name}.{part}");
    let by_key = |row: &Row, workers: usize| (mix(row.key + 77) % workers as u64) as usize;
    match stage {
        Stage::Rebalance => {
            *order = Order::default();
            stream.rebalance(name).fork().stream()
        }
        Stage::Exchange => stream.exchange(name, by_key).fork().stream(),
        Stage::Twice => {
            order.by_sum = false;
            let twice = |row: Row| [Row { copy: 0, ..row }, Row { copy: 1, ..row }];
            stream.flat_map(twice).fork().stream()
        }
        Stage::Diamond => {
            // Pointwise edges keep the order per key while the number of workers stays.
            order.by_position &= context.is_fixed;
            order.by_sum &= context.is_fixed;
            let forked = stream.fork();
            let even = forked.stream().filter(|row| row.key % 2 == 0);
            let even = even.exchange(&of("even"), by_key);
            let odd = forked.stream().filter(|row| row.key % 2 == 1);
            even.union(name, odd).fork().stream()
        }
        Stage::Side => {
            *order = Order::default();
            let (small, large) = stream.split(|row| if row.val < 5 { Ok(row) } else { Err(row) });
            let large = large.rebalance(&of("large"));
            small.union(name, large).fork().stream()
        }
        Stage::Count => {
            let before = std::mem::replace(order, Order { by_sum: true, ..*order });
            let counted = stream.key_by(|row: &Row| row.key).process(name, move |states| {
                let books = Books::open(states, context, before)?;
                Ok(move |_: &u64, row: &Row, out: &mut overtake::Output<Row>| {
                    out.emit(books.count(row));
                })
            });
            counted.fork().stream()
        }
        Stage::Two => {
            // Each input keeps its order, the two together do not.
            let before = std::mem::replace(order, Order { by_sum: true, by_position: false });
            let forked = stream.fork();
            let even = forked.stream().filter(|row| row.pos % 2 == 0).key_by(|row: &Row| row.key);
            let odd = forked.stream().filter(|row| row.pos % 2 == 1).key_by(|row: &Row| row.key);
            let counted = even.process_with(name, odd, move |states| {
                let books = std::rc::Rc::new(Books::open(states, context, before)?);
                let (left, right) = (books.clone(), books);
                Ok((
                    move |_: &u64, row: &Row, out: &mut overtake::Output<Row>| {
                        out.emit(left.count(row));
                    },
                    move |_: &u64, row: &Row, out: &mut overtake::Output<Row>| {
                        out.emit(right.count(row));
                    },
                ))
            });
            counted.fork().stream()
        }
        Stage::Join(_) | Stage::Bill(_) => {
            let before = *order;
            order.by_sum |= stage.counts();
            let shared = &context.shared;
            let dimensions = Splits::dimensions(shared, context.dimensions, context.pauses);
            let mut dimensions = flow.source(&of("dimensions"), dimensions).fork().stream();
            if context.has_relay {
                // Both splits meet on one worker, so that it is held up.
                let to = |_: &Row, workers: usize| 1 % workers;
                dimensions = dimensions.exchange(&of("relay"), to).fork().stream();
            }
            let keyed = stream.key_by(|row: &Row| row.key);
            let joined =
                keyed.process_with_broadcast(name, dimensions, stage.hold(), move |states| {
                    join(states, context, before, stage)
                });
            joined.fork().stream()
        }
    }
}
