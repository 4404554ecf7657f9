//! A payment service with a job inside: what it has confirmed is booked, once, whatever kills it.
//! Run it with `cargo run --release -p overtake --example service -- DIRECTORY`, and talk to the
//! address that it prints (with `nc`, say), a line at a time:
//!
//! ```text
//!   you: hello shop-1        it: durable 0         your last payment that is booked
//!   you: pay alice 250       it: booked 1          it answers when the payment is durable
//! ```
//!
//! After it was killed, say hello again: pay again what followed the number that it tells. The
//! books are in `DIRECTORY/books`; a line on its input drains the job and ends it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write, stdin};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use overtake::connect::embedded::{Input, Reader, Results};
use overtake::{CheckpointId, Job, Output};
use rkyv::{Archive, Deserialize, Serialize};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Archive, Serialize, Deserialize)]
struct Payment {
    client: String,
    number: u64,
    account: String,
    cents: i64,
}

/// A payment, and the balance after it.
#[derive(Clone, Archive, Serialize, Deserialize)]
struct Booking {
    payment: Payment,
    balance: i64,
}

fn main() -> Result<(), Failure> {
    let directory = std::env::args().nth(1).ok_or("usage: service DIRECTORY")?;
    let directory = Path::new(&directory);
    let (payments, bookings) = (Input::<Payment>::new(), Results::<Booking>::new());

    // Who keeps the books knows what it has, and is shown only what follows.
    let mut reader = bookings.reader()?;
    let (books, last) = open_books(&directory.join("books"))?;
    last.into_iter().for_each(|last| reader.acknowledge(last));

    let input = payments.clone();
    let job = Job::new()
        .workers(2)
        .state(directory.join("state"))
        .interval(Duration::from_millis(10))
        .start(move |flow| {
            flow.source("payments", input.source())
                .key_by(|payment| payment.account.clone())
                .process("book", |states| {
                    let balances = states.value::<String, i64>("balances")?;
                    Ok(move |account: &String, payment: &Payment, out: &mut Output<Booking>| {
                        let balance = balances.update(account, |balance| {
                            *balance += payment.cents;
                            *balance
                        });
                        out.emit(Booking { payment: payment.clone(), balance });
                    })
                })
                .sink("bookings", bookings.sink());
        })?;
    let keeping = std::thread::spawn(move || keep_books(books, reader));

    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let payments = payments.clone();
            std::thread::spawn(move || {
                if let Err(why) = serve(client, &payments) {
                    eprintln!("a client was left: {why}");
                }
            });
        }
    });

    stdin().lock().read_line(&mut String::new())?;
    job.handle().drain();
    job.join()?;
    keeping.join().expect("it does not panic")?;
    Ok(())
}

/// A request thread: it answers when what it was asked for is durable.
fn serve(client: TcpStream, payments: &Input<Payment>) -> Result<(), Failure> {
    let mut answer = client.try_clone()?;
    let mut lines = BufReader::new(client).lines();
    let hello = lines.next().ok_or("no hello")??;
    let name = hello.strip_prefix("hello ").ok_or("say hello first")?;
    let mut producer = payments.open(name)?;
    // A line is written whole, so that none is cut short when the service dies.
    answer.write_all(format!("durable {}\n", producer.durable()).as_bytes())?;
    for line in lines {
        let line = line?;
        let mut words = line.split(' ');
        let (Some("pay"), Some(account), Some(cents)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("not a payment: {line}").into());
        };
        let (client, number) = (name.to_owned(), producer.pushed() + 1);
        let payment = Payment { client, number, account: account.into(), cents: cents.parse()? };
        let number = producer.push(payment)?;
        producer.when_durable(number).wait()?;
        answer.write_all(format!("booked {number}\n").as_bytes())?;
    }
    Ok(())
}

/// Opens the books, and cuts off what was not written whole: each checkpoint's bookings end with a
/// line that names it.
fn open_books(path: &Path) -> Result<(File, Option<CheckpointId>), Failure> {
    std::fs::create_dir_all(path.parent().ok_or("the books have a directory")?)?;
    let books =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
    let (mut at, mut whole, mut last) = (0, 0, None);
    let mut lines = BufReader::new(&books);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        at += line.len() as u64;
        if let Some((generation, epoch)) =
            line.strip_prefix("checkpoint ").and_then(|id| id.strip_suffix('\n')?.split_once('/'))
        {
            last = Some(CheckpointId { generation: generation.parse()?, epoch: epoch.parse()? });
            whole = at;
        }
        line.clear();
    }
    books.set_len(whole)?;
    let mut books = books;
    books.seek(std::io::SeekFrom::End(0))?;
    Ok((books, last))
}

/// Writes what is committed, with the checkpoint that committed it, and acknowledges it then.
fn keep_books(mut books: File, mut reader: Reader<Booking>) -> Result<(), Failure> {
    while let Some(committed) = reader.next() {
        let mut text = String::new();
        for Booking { payment: Payment { client, number, account, cents }, balance } in
            committed.records
        {
            text += &format!("{client} {number} {account} {cents} {balance}\n");
        }
        let CheckpointId { generation, epoch } = committed.checkpoint;
        text += &format!("checkpoint {generation}/{epoch}\n");
        books.write_all(text.as_bytes())?;
        books.sync_data()?;
        reader.acknowledge(committed.checkpoint);
    }
    Ok(())
}
