//! What a well-behaved program is given and what becomes of its words.
//!
//! The program is kept: the second task finds the process of the first. Nobody else waits for it.

use super::*;
use millpond_tasks::{ErrorCode, TaskId};

#[test]
fn a_program_is_started_with_its_first_task_and_kept() {
    let rig = rig(moody());
    assert_eq!((rig.count("processes"), rig.count("starts")), (0, 0));
    let pids: Vec<_> = (0..20).map(|n| pid_in(&result(&rig.submit(&json!({"n": n}))))).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let stats = rig.stats();
    assert_eq!(
        (&stats["starts"], &stats["processes"], &stats["answered"]),
        (&json!(1), &json!(1), &json!(20))
    );
    assert_eq!((&stats["restarts"], &stats["crashes"], &stats["waiting"]), (&json!(0), &json!(0), &json!(0)));
    rig.stop();
}

#[test]
fn a_process_sees_one_line_with_all_about_its_task() {
    let folder = Folder::new();
    let settings = HandlerSettings {
        directory: Some(folder.0.clone()),
        env: vec![("MOOD".to_owned(), "fine".to_owned())],
        ..moody()
    };
    let rig = rig(settings);
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let args = json!({"do": "show", "text": "ü \" \n \u{2028}", "list": [1, {"deep": null}]});
    let task = rig.request(&json!({
        "handler": "moody",
        "task_id": "a \"b\"",
        "args": args,
        "timeout_ms": 600_000,
        "traceparent": traceparent,
    }));
    let seen = result(&task);
    let line = &seen["task"];
    assert_eq!(line["task_id"], "a \"b\"");
    assert_eq!((&line["handler"], &line["attempt"], &line["args"]), (&json!("moody"), &json!(1), &args));
    assert_eq!(line["traceparent"], traceparent);
    let left = line["timeout_ms"].as_u64().unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
    assert_eq!((&seen["directory"], &seen["mood"]), (&json!(folder.path()), &json!("fine")));
    let plain = result(&rig.submit(&json!({"do": "show"})));
    let names: Vec<_> = plain["task"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["args", "attempt", "handler", "task_id"], "what there is not is not said");
    assert_eq!(*task.id(), TaskId::Name("a \"b\"".into()));
    rig.stop();
}

#[test]
fn a_thousand_partial_results_arrive_in_order_with_progress_and_log() {
    let rig = rig(moody());
    let (task, said) = rig.stream(&json!({"do": "talk", "count": 1000})).all();
    result(&task);
    let partials: Vec<_> = said.iter().filter_map(|event| event.get("partial")?.as_u64()).collect();
    assert_eq!(partials, (0..1000).collect::<Vec<_>>());
    assert!(said.iter().any(|event| event.get("progress").is_some()));
    assert!(said.iter().any(|event| event.get("log") == Some(&json!("all said"))), "{said:?}");
    assert!(said.iter().all(|event| event.get("missed").is_none() && event["attempt"] == 1));
    rig.stop();
}

#[test]
fn words_that_nobody_reads_hold_up_nobody() {
    let rig = rig(moody());
    result(&rig.submit(&json!({"do": "talk", "count": 5000})));
    rig.stop();
}

#[test]
fn an_error_of_the_program_is_an_answer_and_the_process_stays() {
    let rig = rig(moody());
    let failed = failure(&rig.submit(&json!({"do": "fail", "error": "no such page"})));
    assert_eq!((failed.code, failed.message.as_str()), (ErrorCode::HandlerError, "no such page"));
    let error = json!({"code": "bad-arguments", "message": "args.page: expected a number"});
    let failed = failure(&rig.submit(&json!({"do": "fail", "error": error})));
    assert_eq!(
        (failed.code, failed.message.as_str()),
        (ErrorCode::BadArguments, "args.page: expected a number")
    );
    result(&rig.submit(&json!({})));
    assert_eq!((rig.count("starts"), rig.count("crashes")), (1, 0));
    rig.stop();
}

#[test]
fn as_many_processes_work_at_once_as_allowed_and_no_more() {
    let folder = Folder::new();
    let rig = rig(HandlerSettings { concurrency: 3, ..moody() });
    // Each waits until three are there, so they end only if three run at once.
    let company = json!({"do": "company", "folder": folder.path(), "count": 3});
    let tasks: Vec<_> = (0..3).map(|_| rig.submit(&company)).collect();
    let pids: BTreeSet<_> = tasks.iter().map(|task| pid_in(&result(task))).collect();
    assert_eq!(pids.len(), 3);
    let many: Vec<_> = (0..100).map(|n| rig.submit(&json!({"n": n}))).collect();
    assert!(many.iter().all(|task| pids.contains(&pid_in(&result(task)))));
    assert_eq!((rig.count("starts"), rig.count("processes")), (3, 3));
    rig.stop();
}

#[test]
fn calls_wait_in_the_order_they_came_and_hold_no_worker() {
    let folder = Folder::new();
    let config = ServiceConfig::default();
    let pool = millpond::PoolConfig { workers: 1, workers_max: 1, ..config.pool.clone() };
    let rig = rig_with(moody(), ServiceConfig { pool, ..config });
    let first = rig.submit(&json!({"do": "wait", "for": folder.file("go")}));
    until("the first is busy", || rig.count("busy") == 1);
    let (said, heard) = mpsc::channel();
    let waiting: Vec<_> = (0..50).map(|n| rig.submit(&json!({"n": n}))).collect();
    for (n, task) in waiting.iter().enumerate() {
        let said = said.clone();
        task.on_end(move |_, _| said.send(n).unwrap());
    }
    until("all wait for the process", || rig.count("waiting") == 50);
    // The only worker is free.
    result(&rig.request(&json!({"handler": "echo"})));
    folder.make("go");
    result(&first);
    let order: Vec<_> = (0..50).map(|_| heard.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
    assert_eq!(rig.count("waiting"), 0);
    rig.stop();
}

#[test]
fn a_program_that_does_not_read_holds_up_nobody_but_its_task() {
    let config = ServiceConfig::default();
    let pool = millpond::PoolConfig { workers: 1, workers_max: 1, ..config.pool.clone() };
    let rig = rig_with(script(&["deaf.py"]), ServiceConfig { pool, ..config });
    // More than a pipe takes.
    let large: Vec<_> = (0..4).map(|_| "x".repeat(200_000)).collect();
    let task = rig.submit(&json!({"large": large}));
    until("it is given the task", || rig.count("busy") == 1);
    result(&rig.request(&json!({"handler": "echo"})));
    rig.handle.cancel(task.id()).unwrap();
    assert_eq!(failure(&task).code, ErrorCode::Cancelled);
    until("it is gone", || rig.count("processes") == 0);
    rig.stop();
}

#[test]
fn a_process_is_replaced_after_as_many_tasks_as_it_may_do() {
    let folder = Folder::new();
    let settings = HandlerSettings {
        tasks_per_process_max: Some(3),
        env: vec![("BYE".to_owned(), folder.path().to_owned())],
        ..moody()
    };
    let rig = rig(settings);
    let pids: Vec<_> = (0..9).map(|_| pid_in(&result(&rig.submit(&json!({}))))).collect();
    assert!(pids.chunks(3).all(|three| three.iter().all(|pid| *pid == three[0])), "{pids:?}");
    assert!(pids[0] != pids[3] && pids[3] != pids[6], "{pids:?}");
    until("the last has left", || rig.count("processes") == 0);
    let left: BTreeSet<_> = pids.iter().map(u32::to_string).collect();
    assert_eq!(folder.names(), left, "each saw the end of its input and left by itself");
    assert_eq!((rig.count("crashes"), rig.count("restarts")), (0, 2));
    rig.stop();
}

#[test]
fn a_call_does_not_wait_for_a_process_that_is_leaving() {
    let folder = Folder::new();
    let mut rig = rig(HandlerSettings {
        concurrency: 2,
        tasks_per_process_max: Some(1),
        stop_grace: SOON,
        env: vec![("STAY".to_owned(), "yes".to_owned())],
        ..moody()
    });
    let first = rig.submit(&json!({"do": "wait", "for": folder.file("go")}));
    // The next call comes when the process has answered and its keeper does not know yet that it has to go.
    let (handle, (said, heard)) = (rig.handle.clone(), mpsc::channel());
    first.on_end(move |_, _| {
        let request = json!({"handler": "moody", "args": {"n": 2}}).to_string();
        let next = handle.submit(request.as_bytes(), Submit::default()).unwrap().task;
        let waiting =
            || find(&serde_json::to_value(handle.stats()).unwrap(), "waiting").unwrap()["waiting"] == 1;
        until("it waits", waiting);
        said.send(next).unwrap();
    });
    folder.make("go");
    let next = heard.recv_timeout(SOON).unwrap();
    assert_ne!(pid_in(&result(&next)), pid_in(&result(&first)));
    assert_eq!((rig.count("starts"), rig.count("restarts")), (2, 0), "the first is still there");
    rig.service.take().unwrap().stop(Duration::from_millis(200));
    assert!(rig.pids().iter().all(|pid| !is_ours(*pid)));
}

#[test]
fn a_program_that_serves_once_and_leaves_costs_no_task() {
    let rig = rig(script(&["leaver.py"]));
    let tasks: Vec<_> = (0..40).map(|n| rig.submit(&json!({"n": n}))).collect();
    for (n, task) in tasks.iter().enumerate() {
        assert_eq!(result(task), json!({"n": n}));
    }
    assert_eq!(rig.count("crashes"), 0, "{:#?}", rig.lines());
    rig.stop();
}

#[test]
fn a_task_says_that_it_waits_for_a_process_and_how_many_wait_before_it() {
    let rig = rig(moody());
    let holds = rig.submit(&json!({"do": "hang"}));
    until("the process has its task", || rig.count("busy") == 1);
    let first = rig.submit(&json!({"do": "echo"}));
    until("one waits", || rig.count("waiting") == 1);
    let second = rig.submit(&json!({"do": "echo"}));
    until("two wait", || rig.count("waiting") == 2);
    let why = |task: &Task| rig.handle.why(task.id()).unwrap();
    let begins = "attempt 1 of 1 has begun, and it waits for a process of ";
    let first_says = why(&first);
    assert!(first_says.starts_with(begins), "{first_says}");
    assert!(first_says.ends_with(": 1 of 1 are busy; 0 came before it and wait too"), "{first_says}");
    assert!(why(&second).ends_with("; 1 came before it and wait too"), "{}", why(&second));
    assert!(why(&holds).starts_with("attempt 1 of 1 has been running for "), "{}", why(&holds));
    rig.handle.cancel(holds.id()).unwrap();
    assert_eq!((outcome(&first).status(), outcome(&second).status()), (0, 0));
}
