//! A source and a sink of one's own, written against the contracts: a source of sensor readings
//! that can be read again from any position, and a sink whose transactions are files. Kill it at
//! any moment and start it again: each average is written once. Run it with
//! `cargo run --release -p overtake --example own_connectors -- DIRECTORY`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use overtake::sink::{Prepare, Sink, SinkContext, Target, Transaction, TransactionId};
use overtake::source::{Emit, Read, Source, SourceContext};
use overtake::{BoxError, Job};
use rkyv::{Archive, Deserialize, Serialize};

const SENSORS: u32 = 8;
const READINGS: u64 = 50_000;

/// A reading.
#[derive(Clone, Archive, Serialize, Deserialize)]
struct Reading {
    sensor: u32,
    at: u64,
    celsius: f64,
}

/// Readings that can be computed again, as others can be fetched again: a split is a sensor, and a
/// position is the number of its next reading.
#[derive(Clone, Default)]
struct Sensors {
    open: Vec<(u32, u64)>,
}

impl Source for Sensors {
    type Record = Reading;
    type Position = u64;

    fn splits(&mut self) -> Result<Vec<String>, BoxError> {
        Ok((0..SENSORS).map(|sensor| sensor.to_string()).collect())
    }

    fn open(&mut self, split: &str, from: Option<u64>, _: &SourceContext) -> Result<(), BoxError> {
        self.open.push((split.parse()?, from.unwrap_or(0)));
        Ok(())
    }

    fn read(
        &mut self,
        limit: usize,
        _: Duration,
        out: &mut impl Emit<Reading>,
    ) -> Result<Read, BoxError> {
        let mut emitted = 0;
        for (sensor, next) in &mut self.open {
            while *next < READINGS && emitted < limit && !out.is_blocked() {
                let celsius = 20.0 + f64::from(*sensor) + (*next % 10) as f64 / 10.0;
                out.emit(Reading { sensor: *sensor, at: *next, celsius });
                *next += 1;
                emitted += 1;
            }
        }
        let is_over = self.open.iter().all(|(_, next)| *next == READINGS);
        Ok(if is_over { Read::Ended } else { Read::More })
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.open.iter().map(|(sensor, next)| (sensor.to_string(), *next)).collect()
    }
}

/// An average over a thousand readings of a sensor.
#[derive(Clone, Archive, Serialize, Deserialize)]
struct Average {
    sensor: u32,
    until: u64,
    celsius: f64,
}

/// A transaction is a file: hidden until it is committed, and then renamed.
struct Ledger {
    directory: PathBuf,
    lines: String,
}

/// What commits: it needs the name of the file and nothing else.
struct Commits {
    directory: PathBuf,
}

fn hidden(name: &str) -> String {
    format!(".{name}")
}

impl Sink for Ledger {
    type Record = Average;

    fn target(&self) -> Option<Arc<dyn Target>> {
        Some(Arc::new(Commits { directory: self.directory.clone() }))
    }

    fn open(&mut self, _: SinkContext) -> Result<(), BoxError> {
        Ok(())
    }

    fn write(&mut self, averages: &[Average]) -> Result<(), BoxError> {
        for Average { sensor, until, celsius } in averages {
            self.lines += &format!("{sensor} {until} {celsius:.2}\n");
        }
        Ok(())
    }

    fn cut(&mut self, id: TransactionId) -> Result<Option<(Vec<u8>, Prepare)>, BoxError> {
        let name = format!("averages-{}-{}-{}", id.generation, id.epoch, id.worker);
        let (path, lines) = (self.directory.join(hidden(&name)), std::mem::take(&mut self.lines));
        let prepare = move || {
            let mut file = File::create(&path)?;
            file.write_all(lines.as_bytes())?;
            Ok(file.sync_all()?)
        };
        Ok(Some((name.into_bytes(), Box::new(prepare))))
    }
}

impl Target for Commits {
    fn commit(&self, transaction: &Transaction) -> Result<(), BoxError> {
        let name = std::str::from_utf8(&transaction.data)?;
        let path = self.directory.join(name);
        // Repeated after a restart, it finds the work done.
        if !path.exists() {
            fs::rename(self.directory.join(hidden(name)), path)?;
        }
        Ok(File::open(&self.directory)?.sync_all()?)
    }

    fn begin(&self, _: &str, _: u64, _: &[Transaction]) -> Result<(), BoxError> {
        // What is hidden now was never committed: what is listed is.
        fs::create_dir_all(&self.directory)?;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(".averages-") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), BoxError> {
    let directory = std::env::args().nth(1).ok_or("usage: own_connectors DIRECTORY")?;
    let directory = Path::new(&directory);
    let averages = directory.join("averages");
    let job = Job::new().state(directory.join("state")).interval(Duration::from_millis(20));
    job.run(move |flow| {
        flow.source("sensors", Sensors::default())
            .key_by(|reading| reading.sensor)
            .process("average", |states| {
                let sums = states.value::<u32, (u64, f64)>("sums")?;
                Ok(move |sensor: &u32, reading: &Reading, out: &mut overtake::Output<Average>| {
                    let (count, sum) = sums.get(sensor).unwrap_or_default();
                    let (count, sum) = (count + 1, sum + reading.celsius);
                    if count < 1_000 {
                        sums.set(sensor, (count, sum));
                        return;
                    }
                    sums.remove(sensor);
                    let celsius = sum / count as f64;
                    out.emit(Average { sensor: *sensor, until: reading.at, celsius });
                })
            })
            .sink("ledger", Ledger { directory: averages.clone(), lines: String::new() });
    })?;
    Ok(())
}
