//! A service that is asked for more than it can do: the gate refuses at once what it cannot hold, and nothing is lost.
//!
//! One thread offers requests far faster than two slow workers serve them. The gate keeps at most its capacity waiting,
//! so an accepted request waits a bounded time, and the others are told at once to come back later. Then the service
//! stops: closing hands back what nobody has started on. At the end the books must balance, and the program ends with
//! an error if they do not.
//!
//! ```sh
//! cargo run --release --example overload -p millpond-queue
//! ```
//!
//! `MILLPOND_EXAMPLE_QUICK=1` makes it short.

use millpond_queue::{Gate, Refusal};
use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, thread};

const CAPACITY: usize = 100;
const WORKERS: usize = 2;
/// How long a worker takes for a request: the slow database behind the service.
const SERVICE: Duration = Duration::from_micros(500);
/// How far apart requests come: ten times as often as the workers can serve them.
const ARRIVAL: Duration = Duration::from_micros(25);

struct Request {
    number: u64,
}

/// What the way in saw.
#[derive(Default)]
struct Offered {
    accepted: u64,
    refused: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let length = match env::var_os("MILLPOND_EXAMPLE_QUICK") {
        Some(_) => Duration::from_millis(200),
        None => Duration::from_secs(2),
    };
    let gate = Gate::with_capacity(CAPACITY)?;
    let (offered, served, handed_back) = thread::scope(|scope| {
        let gate = &gate;
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| serve(gate))).collect();
        let door = scope.spawn(|| offer(gate, length));
        let offered = door.join().expect("the door does not panic");
        // No request comes in any more; the workers finish what they hold, and what is queued comes back to us.
        let handed_back = gate.close_and_drain();
        let served: u64 =
            workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).sum();
        (offered, served, handed_back)
    });
    report(&gate, &offered, served, &handed_back);
    let accounted = served + handed_back.len() as u64;
    if offered.accepted != accounted {
        let accepted = offered.accepted;
        return Err(format!(
            "accepted {accepted} requests, but served or handed back {accounted}; some were lost"
        )
        .into());
    }
    println!(
        "the books balance: {} accepted = {served} served + {} handed back",
        offered.accepted,
        handed_back.len()
    );
    Ok(())
}

/// Offers requests at a steady pace and never waits: who does not get in is told to come back later.
fn offer(gate: &Gate<Request>, length: Duration) -> Offered {
    let mut offered = Offered::default();
    let start = Instant::now();
    let mut due = Duration::ZERO;
    while due < length {
        // Late requests are not left out but come in a bunch, as they do when a network hiccups.
        if let Some(early) = due.checked_sub(start.elapsed()) {
            thread::sleep(early);
        }
        due += ARRIVAL;
        match gate.try_enqueue(Request { number: offered.accepted + offered.refused }) {
            Ok(()) => offered.accepted += 1,
            // Here a web server would answer 503 with Retry-After; the refused request is ours to answer.
            Err(Refusal::Full(request)) => {
                debug_assert_eq!(request.number, offered.accepted + offered.refused);
                offered.refused += 1;
            }
            Err(Refusal::Closed(_) | Refusal::TimedOut(_)) => break,
        }
    }
    offered
}

/// Serves requests until the gate is closed and drained. Sleeps while there are none.
fn serve(gate: &Gate<Request>) -> u64 {
    let mut served = 0;
    while let Some(_request) = gate.dequeue() {
        thread::sleep(SERVICE);
        served += 1;
    }
    served
}

fn report(gate: &Gate<Request>, offered: &Offered, served: u64, handed_back: &[Request]) {
    let stats = gate.stats();
    let all = offered.accepted + offered.refused;
    println!("offered      {all:>7}");
    println!(
        "refused      {:>7}  {:.0} % of them, at once",
        offered.refused,
        100.0 * offered.refused as f64 / all as f64
    );
    println!("accepted     {:>7}", offered.accepted);
    println!("served       {served:>7}");
    println!("handed back  {:>7}  when the gate closed", handed_back.len());
    if let [first, .., last] = handed_back {
        println!("             requests {} to {}, oldest first", first.number, last.number);
    }
    println!("queue        {:>7}  at most, of {}", stats.len_max, stats.capacity);
    println!("wait         mean {:.1?}, longest {:.1?}", stats.wait_mean, stats.wait_max);
    // What is accepted finds at most a full gate before it, which the workers empty at their pace.
    let bound = SERVICE * CAPACITY.div_ceil(WORKERS) as u32;
    println!("             a full gate before it costs about {bound:?}, however many come");
}
