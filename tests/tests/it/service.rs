//! An embedded service, the example of that name, is killed with `kill -9` in a loop while clients
//! pay: what they were told to be booked is in its books once, and nothing else is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::harness::{PATIENCE, Place};
use crate::kill::Dice;

const CLIENTS: u64 = 3;
const LIVES: usize = 12;

/// Where the service listens, if it lives, and in which of its lives.
#[derive(Default)]
struct Address {
    now: Mutex<(usize, Option<String>)>,
    changed: Condvar,
    is_over: AtomicBool,
}

impl Address {
    fn set(&self, address: Option<String>) {
        let mut now = self.now.lock().unwrap();
        *now = (now.0 + 1, address);
        self.changed.notify_all();
    }

    /// Waits for an address that is newer than `seen`; none when it is all over.
    fn newer(&self, seen: usize) -> Option<(usize, String)> {
        let now = self.now.lock().unwrap();
        let waits = |now: &mut (usize, Option<String>)| {
            (now.0 <= seen || now.1.is_none()) && !self.is_over.load(Ordering::SeqCst)
        };
        let now = self.changed.wait_timeout_while(now, PATIENCE, waits).unwrap().0;
        if self.is_over.load(Ordering::SeqCst) { None } else { Some((now.0, now.1.clone()?)) }
    }
}

/// What a client knows: its last payment that was confirmed, and how many it has made.
#[derive(Default, Debug)]
struct Told {
    booked: u64,
    paid: u64,
}

/// Pays until the service dies or all is over.
fn pay(
    client: u64,
    address: &str,
    told: &Mutex<Told>,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    let stream = TcpStream::connect(address)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut requests = stream;
    let number = |line: &str, word: &str| -> u64 {
        let number = line.strip_prefix(word).and_then(|number| number.trim().parse().ok());
        number.unwrap_or_else(|| panic!("no answer: {line:?}"))
    };
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line)?;
        // What has no end was cut short by its death.
        if line.ends_with('\n') { Ok(line) } else { Err(std::io::Error::other("it died")) }
    };
    requests.write_all(format!("hello client-{client}\n").as_bytes())?;
    let durable = number(&answer()?, "durable ");
    {
        let told = told.lock().unwrap();
        assert!(durable >= told.booked, "client {client} was told {told:?}, and now {durable}");
        assert!(durable <= told.paid, "client {client} has paid {told:?}, and not {durable}");
    }
    for next in durable + 1.. {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        {
            let mut told = told.lock().unwrap();
            told.paid = told.paid.max(next);
        }
        let (account, cents) = (next % 5, next * 100 + client);
        requests.write_all(format!("pay account-{account} {cents}\n").as_bytes())?;
        assert_eq!(number(&answer()?, "booked "), next);
        told.lock().unwrap().booked = next;
    }
    Ok(())
}

/// A service that dies with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All is over, however the test ends: clients stop.
struct Over<'a>(&'a Address);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

fn start(place: &Place) -> (Service, Option<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example_service"));
    command.arg(place.path("service")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (Service(child), line.trim().strip_prefix("listening on ").map(str::to_owned))
}

#[test]
fn f19_f36_what_an_embedded_service_has_confirmed_is_booked_once_over_kill_9() {
    let (place, mut dice) = (Place::new(), Dice::new());
    let told: Vec<Mutex<Told>> = (0..CLIENTS).map(|_| Mutex::default()).collect();
    let address = Address::default();
    std::thread::scope(|scope| {
        for (client, told) in told.iter().enumerate() {
            let address = &address;
            scope.spawn(move || {
                let mut seen = 0;
                while let Some((life, at)) = address.newer(seen) {
                    seen = life;
                    // It dies while a client waits: that is what is tested.
                    let _ = pay(client as u64, &at, told, &address.is_over);
                }
            });
        }
        let over = Over(&address);
        let booked = || -> u64 { told.iter().map(|told| told.lock().unwrap().booked).sum() };
        for life in 0..LIVES {
            let before = booked();
            let (service, listening) = start(&place);
            address.set(listening);
            // Some die before they have booked anything, some while they do.
            if life % 3 > 0 {
                crate::harness::until(|| booked() > before);
            }
            std::thread::park_timeout(Duration::from_millis(dice.below(150)));
            drop(service);
            address.set(None);
        }
        // The last life is ended in order, when everybody has got on.
        let before: Vec<u64> = told.iter().map(|told| told.lock().unwrap().booked).collect();
        let (mut service, listening) = start(&place);
        assert!(listening.is_some(), "it does not start");
        address.set(listening);
        crate::harness::until(|| {
            let now = told.iter().map(|told| told.lock().unwrap().booked);
            now.zip(&before).all(|(now, before)| now >= before + 10)
        });
        drop(over);
        crate::harness::until(|| {
            told.iter().all(|told| matches!(&*told.lock().unwrap(), t if t.paid == t.booked))
        });
        service.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(service.0.wait().unwrap().success());
    });

    let books = fs::read_to_string(place.path("service/books")).unwrap();
    let mut booked = BTreeMap::<String, Vec<u64>>::new();
    let mut balances = BTreeMap::<String, i64>::new();
    let mut checkpoints = Vec::new();
    for line in books.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["checkpoint", id] => {
                let (generation, epoch) = id.split_once('/').unwrap();
                checkpoints
                    .push((generation.parse::<u64>().unwrap(), epoch.parse::<u64>().unwrap()));
            }
            [client, number, account, cents, balance] => {
                booked.entry(client.to_owned()).or_default().push(number.parse().unwrap());
                let of = balances.entry(account.to_owned()).or_default();
                *of += cents.parse::<i64>().unwrap();
                assert_eq!(of.to_string(), balance, "{account} after {client}'s {number}");
            }
            _ => panic!("{line:?}"),
        }
    }
    assert!(checkpoints.is_sorted_by(|one, next| one < next));
    let lives = checkpoints.iter().map(|id| id.0).collect::<std::collections::BTreeSet<_>>();
    assert!(lives.len() > LIVES / 2, "hardly a life has booked anything: the test shows nothing");
    for (client, told) in told.iter().enumerate() {
        let (client, told) = (format!("client-{client}"), told.lock().unwrap());
        let numbers = &booked[&client];
        assert!(numbers.iter().copied().eq(1..=told.booked), "{client} was told {told:?}");
    }
    println!("{told:?} in {} lives that booked", lives.len());
}
