//! The tasks of one round: what each says, when it was put, and whether it came back once and as it was.
//!
//! Every task is a JSON object with a number of its own, so that its result tells which it was, whatever the
//! order. A result must be the task to the byte. Times are kept for every task and not for a sample: the
//! worst ones are what the 99th percentile is about.
//!
//! Not here: who carries the tasks (`peers/tasks/`).

use crate::measure::Figures;
use crate::peers::tasks::Producer;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How many tasks are under way at a time.
const IN_FLIGHT: usize = 64;

/// Lets so many tasks pass, 64 at a time, and says how that went.
pub(super) fn pass(producer: &mut impl Producer, tasks: usize) -> Result<Figures, String> {
    let mut flight = Flight::new(tasks);
    let passed = flight.pass(producer);
    passed.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let (landed, put) = (flight.times.len(), flight.put.len());
            format!(
                "{put} tasks were put, {landed} came back, and then nothing: a task or a wake-up was lost"
            )
        }
        _ => error.to_string(),
    })
}

struct Flight {
    tasks: usize,
    /// When each task was put, in the order of their numbers; none once it is back.
    put: Vec<Option<Instant>>,
    /// How long each took that is back.
    times: Vec<Duration>,
    text: Vec<u8>,
}

impl Flight {
    fn new(tasks: usize) -> Self {
        let (put, times) = (Vec::with_capacity(tasks), Vec::with_capacity(tasks));
        Self { tasks, put, times, text: Vec::new() }
    }

    fn pass(&mut self, producer: &mut impl Producer) -> io::Result<Figures> {
        let start = Instant::now();
        while self.times.len() < self.tasks {
            while self.put.len() < self.tasks && self.put.len() - self.times.len() < IN_FLIGHT {
                write_task(&mut self.text, self.put.len())?;
                self.put.push(Some(Instant::now()));
                producer.put(&self.text)?;
            }
            producer.exchange(&mut |result| self.land(result))?;
        }
        Ok(self.figures(start.elapsed()))
    }

    /// Notes a result, if it is one of ours, for the first time, and unchanged.
    fn land(&mut self, result: &[u8]) -> io::Result<()> {
        let wrong = |what: &str| {
            let shown = String::from_utf8_lossy(result);
            io::Error::new(io::ErrorKind::InvalidData, format!("a result {what}: {shown}"))
        };
        let number = number_of(result).ok_or_else(|| wrong("without a number"))?;
        let put = self.put.get_mut(number).ok_or_else(|| wrong("of no task"))?;
        let put = put.take().ok_or_else(|| wrong("that came twice"))?;
        write_task(&mut self.text, number)?;
        if self.text != result {
            return Err(wrong("that is not what its task said"));
        }
        self.times.push(put.elapsed());
        Ok(())
    }

    fn figures(&mut self, elapsed: Duration) -> Figures {
        self.times.sort_unstable();
        let microseconds = |share: f64| {
            let last = self.times.len().saturating_sub(1);
            let rank = (last as f64 * share).round() as usize;
            self.times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        let rate = self.tasks as f64 / elapsed.as_secs_f64();
        Figures { main: rate, beside: vec![("p50_us", microseconds(0.5)), ("p99_us", microseconds(0.99))] }
    }
}

const TASK_BEGIN: &[u8] = b"{\"number\":";

/// A task as small as tasks are: 60 bytes or so.
fn write_task(text: &mut Vec<u8>, number: usize) -> io::Result<()> {
    text.clear();
    text.extend_from_slice(TASK_BEGIN);
    write!(text, "{number},\"subject\":\"a small task\",\"urgent\":false}}")
}

fn number_of(task: &[u8]) -> Option<usize> {
    let rest = task.strip_prefix(TASK_BEGIN)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Gives back what it holds, the last first, and never more than a few; then does something to one of
    /// them.
    struct Echo {
        held: VecDeque<Vec<u8>>,
        most: usize,
        spoil: fn(&mut VecDeque<Vec<u8>>),
    }

    impl Producer for Echo {
        fn put(&mut self, task: &[u8]) -> io::Result<()> {
            self.held.push_back(task.to_vec());
            self.most = self.most.max(self.held.len());
            Ok(())
        }

        fn exchange(&mut self, landed: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
            (self.spoil)(&mut self.held);
            for _ in 0..3 {
                self.held.pop_back().map_or(Ok(()), |task| landed(&task))?;
            }
            Ok(())
        }
    }

    fn echo(spoil: fn(&mut VecDeque<Vec<u8>>)) -> Echo {
        Echo { held: VecDeque::new(), most: 0, spoil }
    }

    #[test]
    fn exactly_64_tasks_are_under_way_and_all_come_back() {
        let mut producer = echo(|_| ());
        let figures = pass(&mut producer, 1000).unwrap();
        assert_eq!((producer.most, producer.held.len()), (IN_FLIGHT, 0));
        assert!(figures.main > 0.0);
        let [("p50_us", p50), ("p99_us", p99)] = figures.beside[..] else { panic!("{figures:?}") };
        assert!(p50 <= p99);
    }

    #[test]
    fn a_result_that_is_doubled_changed_or_foreign_is_found() {
        let fault = |spoil| pass(&mut echo(spoil), 1000).unwrap_err();
        let doubled = fault(|held| held.extend(held.back().cloned().into_iter().collect::<Vec<_>>()));
        assert!(doubled.starts_with("a result that came twice: {\"number\":63,"), "{doubled}");
        let changed = fault(|held| held.iter_mut().for_each(|task| task.push(b' ')));
        assert!(changed.starts_with("a result that is not what its task said: "), "{changed}");
        let foreign = fault(|held| held.push_back(b"{\"number\":999999,".to_vec()));
        assert!(foreign.starts_with("a result of no task: "), "{foreign}");
    }

    #[test]
    fn a_task_can_be_told_from_its_result() {
        let mut text = Vec::new();
        write_task(&mut text, 4711).unwrap();
        assert_eq!(number_of(&text), Some(4711));
        assert_eq!(number_of(b"{\"number\":}"), None);
        serde_json::from_slice::<serde_json::Value>(&text).unwrap();
    }
}
