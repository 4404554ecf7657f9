//! A ring from each worker to each, and one back for spare batches.

use std::iter;
use std::thread;

use rtrb::{Consumer, Producer, RingBuffer};

use super::switch::Switch;
use super::{WORKERS, Yardstick};

/// Records of one worker for one other.
pub(super) type Batch = Vec<(u64, u64)>;

/// Batches that a ring holds.
const RING: usize = 16;

/// Spare batches on their way back.
const SPARES: usize = 32;

/// What one worker holds of the mesh.
pub(super) struct Ends {
    /// To each worker.
    pub(super) send: Vec<Producer<Batch>>,
    /// From each worker.
    pub(super) receive: Vec<Consumer<Batch>>,
    /// To each worker, the batches that came from it.
    pub(super) give_back: Vec<Producer<Batch>>,
    /// From each worker, the batches that went to it.
    pub(super) spares: Vec<Consumer<Batch>>,
}

/// Starts a thread for each worker, on a core of its own, that runs `work` with its index and its
/// ends of the mesh.
pub(super) fn start(work: impl Fn(usize, Ends, Switch) + Clone + Send + 'static) -> Yardstick {
    let switch = Switch::new();
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let threads = mesh().into_iter().enumerate().map(|(worker, ends)| {
        let (work, switch) = (work.clone(), switch.clone());
        let core = cores.get(worker % cores.len().max(1)).copied();
        thread::spawn(move || {
            // Where the machine does not allow pinning, the scheduler decides.
            core.map(core_affinity::set_for_current);
            switch.enter();
            work(worker, ends, switch);
        })
    });
    let threads = threads.collect();
    switch.wait_for_all();
    Yardstick { switch, threads }
}

fn mesh() -> Vec<Ends> {
    let ends = || Ends { send: vec![], receive: vec![], give_back: vec![], spares: vec![] };
    let mut mesh: Vec<Ends> = iter::repeat_with(ends).take(WORKERS).collect();
    for sender in 0..WORKERS {
        for receiver in 0..WORKERS {
            let (send, receive) = RingBuffer::new(RING);
            let (give_back, spares) = RingBuffer::new(SPARES);
            mesh[sender].send.push(send);
            mesh[sender].spares.push(spares);
            mesh[receiver].receive.push(receive);
            mesh[receiver].give_back.push(give_back);
        }
    }
    mesh
}
