//! A trace is written from what an ended task says, so the tracer is told of every task it wanted, once, and
//! finds all there is.

use crate::toys::{Mill, ended, failure, json, panic_quietly, small, until};
use millpond_tasks::{DoorName, ErrorCode, Submit, Task, TraceStats, Tracer};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const OURS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const OWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01";

/// Wants what is marked as sampled, and keeps the tasks it is told of.
#[derive(Default)]
struct Notebook(Mutex<Vec<Arc<Task>>>);

impl Tracer for Notebook {
    fn wants(&self, traceparent: Option<&str>) -> bool {
        traceparent.is_some_and(|context| context.ends_with("01"))
    }

    fn own_traceparent(&self, traceparent: Option<&str>) -> Option<String> {
        assert_eq!(traceparent, Some(OURS));
        Some(OWN.to_owned())
    }

    fn ended(&self, task: &Arc<Task>) {
        assert!(task.is_ended());
        self.0.lock().unwrap().push(Arc::clone(task));
    }

    fn stats(&self) -> TraceStats {
        TraceStats { exported: self.0.lock().unwrap().len() as u64, ..TraceStats::default() }
    }
}

fn request(traceparent: &str) -> String {
    format!(r#"{{"handler":"hold","retries":1,"traceparent":"{traceparent}"}}"#)
}

#[test]
fn a_tracer_is_told_once_of_each_task_it_wanted_with_all_attempts() {
    let mill = Mill::start(small());
    let notebook = Arc::new(Notebook::default());
    let service = mill.service.as_ref().unwrap();
    assert_eq!(mill.handle.trace_stats(), None);
    assert!(service.set_tracer(Arc::clone(&notebook) as _));
    assert!(!service.set_tracer(Arc::new(Notebook::default())), "there is one already");
    let how = Submit { door: DoorName::Http, ..Submit::default() };
    let task = mill.handle.submit(request(OURS).as_bytes(), how).unwrap().task;
    let call = mill.call();
    assert_eq!(call.traceparent(), Some(OWN), "the handler goes on below the task");
    call.finish(Err(failure(ErrorCode::HandlerError)));
    mill.call().finish(Ok(json("1")));
    let unwanted = mill.submit(&request(OTHER));
    let call = mill.call();
    assert_eq!(call.traceparent(), Some(OTHER));
    call.finish(Ok(json("2")));
    ended(&task);
    ended(&unwanted);
    ended(&mill.submit(r#"{"handler":"echo"}"#));
    assert_eq!(service.drain(Duration::from_secs(60)).left, 0);
    assert_eq!(mill.handle.trace_stats().unwrap().exported, 1);
    let told = notebook.0.lock().unwrap();
    assert_eq!(told.len(), 1, "after a drain everything was told");
    let (told, tries) = (&told[0], told[0].tries());
    assert_eq!((told.id(), told.door(), told.traceparent()), (task.id(), DoorName::Http, Some(OURS)));
    assert_eq!(told.own_traceparent(), Some(OWN));
    assert_eq!((tries.len(), tries[0].error, tries[1].error), (2, Some("handler-error"), None));
    assert_eq!(told.accepted_unix_ns() / 1_000_000, told.status().accepted_at_ms);
}

#[test]
fn cancelled_tasks_are_told_of_and_refused_ones_are_not() {
    let mut config = small();
    config.pool.queue_capacity = 1;
    let mill = Mill::start(config);
    let notebook = Arc::new(Notebook::default());
    assert!(mill.service.as_ref().unwrap().set_tracer(Arc::clone(&notebook) as _));
    let plugs = mill.plug();
    let request = request(OURS);
    let taken: Vec<_> = (0..50)
        .filter_map(|_| mill.handle.submit(request.as_bytes(), Submit::default()).ok())
        .map(|accepted| accepted.task)
        .collect();
    assert!(taken.len() < 50, "the queue has few places");
    taken.iter().for_each(|task| mill.handle.cancel(task.id()).unwrap());
    until("each is told of", || notebook.0.lock().unwrap().len() == taken.len());
    mill.unplug();
    plugs.iter().for_each(|plug| assert!(ended(plug).result().is_ok()));
    mill.settle();
}

struct Clumsy;

impl Tracer for Clumsy {
    fn wants(&self, traceparent: Option<&str>) -> bool {
        traceparent.is_none() || panic_quietly("it was asked to")
    }

    fn ended(&self, _: &Arc<Task>) {
        panic_quietly("it was told to")
    }
}

#[test]
fn a_tracer_that_panics_costs_its_traces_and_no_task() {
    let mill = Mill::start(small());
    assert!(mill.service.as_ref().unwrap().set_tracer(Arc::new(Clumsy)));
    ended(&mill.submit(r#"{"handler":"echo"}"#));
    ended(&mill.submit(&format!(r#"{{"handler":"echo","traceparent":"{OURS}"}}"#)));
    assert_eq!(mill.settle().succeeded, 2);
}
