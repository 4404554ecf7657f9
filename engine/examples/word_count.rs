//! Counts words, and shows each word's last count. Run it with
//! `cargo run --release -p overtake --example word_count`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use overtake::{Error, Job, source};

const TEXT: [&str; 3] = [
    "the barrier overtakes the data",
    "the data waits and the barrier does not",
    "no barrier waits for data",
];

fn main() -> Result<(), Error> {
    let counts = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = counts.clone();
    Job::new().run(move |flow| {
        let seen = seen.clone();
        flow.source("lines", source::items(TEXT.map(str::to_owned).to_vec()))
            .flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .key_by(|word| word.clone())
            .fold("counts", |count: &mut u64, _word| *count += 1)
            .for_each("show", move |(word, count)| {
                seen.lock().expect("nobody panics").insert(word.clone(), *count);
            });
    })?;
    for (word, count) in counts.lock().expect("nobody panics").iter() {
        println!("{count:3} {word}");
    }
    Ok(())
}
