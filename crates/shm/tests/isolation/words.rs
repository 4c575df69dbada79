//! What passes between the processes: partial results, logs, large arguments and answers, those that are too large.
//!
//! A handler must not notice where it runs, and neither must whoever reads what it says.

use crate::Scenario;
use crate::bed::{Bed, LONG, failure, result, settings, until};
use millpond_shm::isolate::{Zygote, service};
use millpond_tasks::{ErrorCode, Log, Reader, Said, Submit, Task, Wants, Watch};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("partial_results_and_log_lines_come_in_order", partial_results_and_log_lines_come_in_order),
    ("large_arguments_and_answers_arrive_whole", large_arguments_and_answers_arrive_whole),
    ("what_is_too_large_is_refused_with_the_limit", what_is_too_large_is_refused_with_the_limit),
    ("memory_of_the_daemon_is_used_in_the_daemon", memory_of_the_daemon_is_used_in_the_daemon),
    ("mistakes_in_arguments_come_back_as_they_are", mistakes_in_arguments_come_back_as_they_are),
];

struct Nobody;

impl Watch for Nobody {
    fn told(&self, _: u64, _: &Arc<Task>) {}
}

/// Somebody who looks by himself.
pub(crate) fn nobody(wants: Wants) -> Reader {
    Reader { who: Arc::new(Nobody), tag: 0, wants }
}

fn partial_results_and_log_lines_come_in_order() {
    const COUNT: u64 = 5_000;
    let bed = Bed::new(2);
    let request = json!({"handler": "misbehave", "args": {"do": "speak", "n": COUNT}});
    let reader = Some(nobody(Wants::Stream { from: 0 }));
    let how = Submit { reader, ..Submit::default() };
    let accepted = bed.handle().submit(request.to_string().as_bytes(), how).unwrap();
    let mut watching = accepted.watching.unwrap();
    let (mut next, mut logs, mut events) = (0, 0, Vec::new());
    until("everything is said", || {
        watching.read(1 << 16, &mut events);
        for event in events.drain(..) {
            match event.what {
                Said::Partial(value) => {
                    let value: Value = serde_json::from_str(value.get()).unwrap();
                    let expected = json!({"at": next, "text": "x".repeat((next % 900) as usize)});
                    assert_eq!(value, expected);
                    next += 1;
                }
                Said::Log(line) => {
                    assert_eq!(&*line, format!("{} are said", next - 1));
                    logs += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        next == COUNT
    });
    assert_eq!((result(&accepted.task), logs), (json!({"said": COUNT}), COUNT / 100));
}

fn large_arguments_and_answers_arrive_whole() {
    let mut settings = settings(2);
    settings.request.string_bytes_max = settings.request.args_bytes_max;
    let bed = Bed::with(&settings);
    for bytes in [1, 400, 500, 5_000, 70_000, 900_000] {
        let text = "z".repeat(bytes);
        let tasks: Vec<_> =
            (0..6).map(|n| bed.submit(&json!({"handler": "echo", "args": {"n": n, "text": text}}))).collect();
        for (n, task) in tasks.iter().enumerate() {
            assert!(result(task) == json!({"n": n, "text": text}), "{bytes} bytes came back otherwise");
        }
        let asked = json!({"handler": "misbehave", "args": {"do": "answer at length", "n": bytes}});
        assert!(result(&bed.submit(&asked)) == json!("y".repeat(bytes)));
    }
}

fn what_is_too_large_is_refused_with_the_limit() {
    let mut small = settings(1);
    (small.request.args_bytes_max, small.results.result_bytes_max) = (1000, 1000);
    small.stream.chunk_bytes_max = 1000;
    let large = settings(1);
    // The processes are made for less than the service takes.
    let zygote = Zygote::start(&small, || Ok(crate::bed::handlers())).unwrap();
    let service = service(&large, crate::bed::handlers(), &Log::silent(), Some(zygote)).unwrap();
    let bed = Bed { service, lines: Arc::default() };
    let refused = failure(&bed.submit(&json!({"handler": "echo", "args": {"text": "z".repeat(70_000)}})));
    assert_eq!(refused.code, ErrorCode::TooLarge, "{refused}");
    assert!(refused.message.contains("at most 65536 bytes"), "{refused}");
    let asked = json!({"handler": "misbehave", "args": {"do": "answer at length", "n": 70_000}});
    let refused = failure(&bed.submit(&asked));
    assert_eq!(refused.code, ErrorCode::TooLarge, "{refused}");
    let after = json!({"handler": "echo", "args": {"n": 1}});
    assert_eq!(result(&bed.submit(&after)), json!({"n": 1}), "the process goes on");
    bed.service.stop(LONG);
}

fn memory_of_the_daemon_is_used_in_the_daemon() {
    let bed = Bed::new(1);
    let memory = Arc::new(millpond_tasks::symbols::HeapMemory::new(16));
    let access = millpond_tasks::symbols::Access::ReadWrite;
    bed.handle().symbols().register("shelf", memory, access).unwrap();
    let put = json!({"handler": "write_memory", "args": {"region": "shelf", "data": "jam"}});
    assert_eq!(result(&bed.submit(&put)), json!({"length": 3}));
    let get = json!({"handler": "read_memory", "args": {"region": "shelf", "length": 3}});
    assert_eq!(result(&bed.submit(&get))["data"], "jam");
}

fn mistakes_in_arguments_come_back_as_they_are() {
    let bed = Bed::new(1);
    let refused = failure(&bed.ask("dance"));
    assert_eq!((refused.code, &*refused.message), (ErrorCode::BadArguments, "what is \"dance\"?"));
    let refused = failure(&bed.submit(&json!({"handler": "file_read", "args": {"path": "/etc/passwd"}})));
    assert_eq!(refused.code, ErrorCode::NotAllowed, "the allow-list counts there too: {refused}");
}
