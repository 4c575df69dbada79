//! The tasks of one round: made before the clock runs, and compared byte by byte when they come back.
//!
//! Some of these peers need less time for a task than it takes to write its text. So there is a fixed set of tasks,
//! each with a number in it, and they are sent in turn. There are more of them than can be under way, so an answer
//! that is lost, doubled or exchanged for another is found.
//!
//! Not here: who carries the tasks (`peers/shm/`).

use crate::measure::Figures;
use crate::peers::shm::{BATCH, Line};
use std::mem;
use std::time::{Duration, Instant};

/// How tasks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One call a task, 64 under way.
    Singly,
    /// One call for 32 tasks, up to 128 under way.
    Batches,
}

const SINGLY_IN_FLIGHT: u64 = 64;
const BATCHES_IN_FLIGHT: u64 = 128;
/// Different tasks.
const TASKS: u64 = 1024;

/// A run of tasks over one line, from its first on.
pub(super) struct Flight {
    texts: Vec<Vec<u8>>,
    /// By text: whether it is under way.
    under_way: Vec<bool>,
    sent: u64,
    landed: u64,
}

impl Flight {
    pub(super) fn new() -> Self {
        let texts = (0..TASKS).map(text).collect();
        Self { texts, under_way: vec![false; TASKS as usize], sent: 0, landed: 0 }
    }

    /// Sends so many tasks, each when the last is back: the median and the 99th percentile of the time that took.
    pub(super) fn round_trips(&mut self, line: &mut impl Line, tasks: u64) -> Result<Figures, String> {
        let mut times = Vec::with_capacity(tasks as usize);
        for _ in 0..tasks {
            let start = Instant::now();
            self.send(line, 1)?;
            self.land(line)?;
            times.push(start.elapsed());
        }
        self.check_all_are_back()?;
        times.sort_unstable();
        let at = |share: f64| {
            let rank = (times.len().saturating_sub(1) as f64 * share).round() as usize;
            times.get(rank).map_or(0.0, Duration::as_secs_f64) * 1e6
        };
        Ok(Figures { main: at(0.5), beside: vec![("p99_us", at(0.99))] })
    }

    /// Lets so many tasks pass, and says at which rate.
    pub(super) fn pass(&mut self, line: &mut impl Line, tasks: u64, way: Way) -> Result<Figures, String> {
        let (step, in_flight) = match way {
            Way::Singly => (1, SINGLY_IN_FLIGHT),
            Way::Batches => (BATCH as u64, BATCHES_IN_FLIGHT),
        };
        // Whole batches, so that none goes over the end of the texts.
        let end = self.sent + tasks.next_multiple_of(step);
        let start = Instant::now();
        while self.landed < end {
            while self.sent < end && self.sent - self.landed + step <= in_flight {
                self.send(line, step)?;
            }
            self.land(line)?;
        }
        let elapsed = start.elapsed();
        self.check_all_are_back()?;
        Ok(Figures::from(tasks.next_multiple_of(step) as f64 / elapsed.as_secs_f64()))
    }

    /// Sends the next so many, at most a batch.
    fn send(&mut self, line: &mut impl Line, count: u64) -> Result<(), String> {
        let begin = (self.sent % TASKS) as usize;
        let range = begin..begin + count as usize;
        self.under_way[range.clone()].fill(true);
        if let [alone] = &self.texts[range.clone()] {
            line.send(alone)?;
        } else {
            let mut batch: [&[u8]; BATCH] = [&[]; BATCH];
            for (one, text) in batch.iter_mut().zip(&self.texts[range]) {
                *one = text;
            }
            line.send_batch(&batch[..count as usize])?;
        }
        self.sent += count;
        Ok(())
    }

    /// Waits for something to come back, and checks it.
    fn land(&mut self, line: &mut impl Line) -> Result<(), String> {
        let (texts, under_way, landed) = (&self.texts, &mut self.under_way, &mut self.landed);
        line.receive(&mut |number, answer| {
            let wrong = |what: &str| Err(format!("an answer {what}: {}", String::from_utf8_lossy(answer)));
            let at = (number % TASKS) as usize;
            if !mem::take(&mut under_way[at]) {
                return wrong("that came twice, or of a task that was not sent");
            }
            if answer != texts[at] {
                return wrong("that is not what its task said");
            }
            *landed += 1;
            Ok(())
        })
    }

    fn check_all_are_back(&self) -> Result<(), String> {
        match self.under_way.iter().filter(|under_way| **under_way).count() {
            0 if self.sent == self.landed => Ok(()),
            missing => {
                Err(format!("{missing} tasks did not come back, {} of {} did", self.landed, self.sent))
            }
        }
    }
}

const TEXT_BEGIN: &[u8] = b"{\"number\":";

/// A task as small as tasks are: about 60 bytes.
fn text(number: u64) -> Vec<u8> {
    format!("{{\"number\":{number},\"subject\":\"a small task\",\"urgent\":false}}").into_bytes()
}

/// Which task this is the answer of, by what it says.
pub(super) fn number_of(answer: &[u8]) -> Option<u64> {
    let rest = answer.strip_prefix(TEXT_BEGIN)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::shm::Landed;
    use std::collections::VecDeque;

    /// Sends back what it got, a few at a time, after something was done to them.
    struct Mirror {
        held: VecDeque<(u64, Vec<u8>)>,
        most: usize,
        sent: u64,
        spoil: fn(&mut VecDeque<(u64, Vec<u8>)>),
    }

    impl Line for Mirror {
        fn send(&mut self, task: &[u8]) -> Result<(), String> {
            self.held.push_back((self.sent, task.to_vec()));
            self.sent += 1;
            self.most = self.most.max(self.held.len());
            Ok(())
        }

        fn receive(&mut self, landed: &mut Landed<'_>) -> Result<(), String> {
            (self.spoil)(&mut self.held);
            for _ in 0..3 {
                self.held.pop_front().map_or(Ok(()), |(number, task)| landed(number, &task))?;
            }
            Ok(())
        }
    }

    fn mirror(spoil: fn(&mut VecDeque<(u64, Vec<u8>)>)) -> Mirror {
        Mirror { held: VecDeque::new(), most: 0, sent: 0, spoil }
    }

    #[test]
    fn as_many_tasks_are_under_way_as_the_group_says_and_all_come_back() {
        for (way, most) in [(Way::Singly, 64), (Way::Batches, 128)] {
            let mut line = mirror(|_| ());
            let mut flight = Flight::new();
            for tasks in [100, 5_000] {
                assert!(flight.pass(&mut line, tasks, way).unwrap().main > 0.0);
            }
            assert_eq!((line.most, line.held.len()), (most, 0));
        }
        let mut line = mirror(|_| ());
        let figures = Flight::new().round_trips(&mut line, 2_000).unwrap();
        assert!(line.most == 1 && figures.main <= figures.beside[0].1);
    }

    #[test]
    fn an_answer_that_is_doubled_changed_or_exchanged_is_found() {
        let fault = |spoil| Flight::new().pass(&mut mirror(spoil), 1000, Way::Singly).unwrap_err();
        let doubled = fault(|held| held.extend(held.front().cloned().into_iter().collect::<Vec<_>>()));
        assert!(doubled.starts_with("an answer that came twice"), "{doubled}");
        let changed = fault(|held| held.iter_mut().for_each(|(_, task)| task.push(b' ')));
        assert!(changed.starts_with("an answer that is not what its task said: "), "{changed}");
        let exchanged = fault(|held| held.iter_mut().for_each(|(number, _)| *number ^= 1));
        assert!(exchanged.starts_with("an answer that is not what its task said: "), "{exchanged}");
    }

    #[test]
    fn a_task_says_its_number() {
        assert_eq!(number_of(&text(1023)), Some(1023));
        assert_eq!(number_of(b"{\"number\":}"), None);
        serde_json::from_slice::<serde_json::Value>(&text(7)).unwrap();
    }
}
