//! Whatever a program does wrong costs the task it had, and that task is told what happened.
//!
//! Beside each wrongdoer another process of the same handler works on; it is let go only after the wrong was
//! told, so it cannot have been done before.

use super::*;
use millpond_tasks::ErrorCode;

/// Has one process do wrong while another works, and says what the wronged task was told.
fn costs_only_its_task(settings: HandlerSettings, wrong: &Value) -> TaskFailure {
    let folder = Folder::new();
    let rig = rig(HandlerSettings { concurrency: 2, ..settings });
    let beside = rig.submit(&json!({"do": "wait", "for": folder.file("go"), "n": 1}));
    until("one works", || rig.count("busy") == 1);
    let failed = failure(&rig.submit(wrong));
    assert_eq!(rig.count("crashes"), 1);
    assert!(!beside.is_ended());
    let after: Vec<_> = (0..10).map(|n| rig.submit(&json!({"n": n}))).collect();
    for (n, task) in after.iter().enumerate() {
        assert_eq!(result(task)["n"], n);
    }
    folder.make("go");
    assert_eq!(result(&beside)["n"], 1);
    assert_eq!((rig.count("crashes"), rig.count("starts")), (1, 3));
    assert!(
        rig.lines().iter().any(|line| line.contains(&failed.message)),
        "the log knows: {:#?}",
        rig.lines()
    );
    rig.stop();
    failed
}

/// A crash of `moody.py`: what its process did, in the words of the message.
fn crash(wrong: &Value) -> String {
    let failed = costs_only_its_task(moody(), wrong);
    assert_eq!(failed.code, ErrorCode::HandlerCrashed, "{failed}");
    let label = format!("{} -S ", Path::new(python()).file_name().unwrap().to_str().unwrap());
    let (who, did) = failed.message.split_once(") ").unwrap();
    assert!(who.starts_with(&label) && who.contains(" (pid "), "{}", failed.message);
    did.to_owned()
}

#[test]
fn a_segfault() {
    assert_eq!(crash(&json!({"do": "segfault"})), "was killed by signal 11 (SIGSEGV) while it worked");
}

#[test]
fn an_exit() {
    assert_eq!(
        crash(&json!({"do": "exit", "status": 3})),
        "exited with status 3 before it answered; last words on stderr: about to leave"
    );
}

#[test]
fn an_exit_that_calls_itself_a_success() {
    assert_eq!(
        crash(&json!({"do": "exit", "status": 0})),
        "exited with status 0 before it answered; last words on stderr: about to leave"
    );
}

#[test]
fn a_kill_from_outside() {
    assert_eq!(
        crash(&json!({"do": "kill", "signal": 9})),
        "was killed by signal 9 (SIGKILL) while it worked: perhaps by the kernel, for want of memory or \
         processor time"
    );
}

#[test]
fn an_exception_that_nobody_caught() {
    let did = crash(&json!({"do": "throw"}));
    assert!(did.starts_with("exited with status 1 before it answered; last words on stderr: "), "{did}");
    assert!(did.ends_with("KeyError: 'nothing'"), "{did}");
}

#[test]
fn a_line_that_is_no_json() {
    assert_eq!(
        crash(&json!({"do": "garbage"})),
        "wrote a line that is no answer and was killed: expected a JSON object on one line, got \"hello\""
    );
}

#[test]
fn an_answer_to_another_task() {
    let did = crash(&json!({"do": "wrong_id"}));
    assert!(did.contains("killed: task_id: expected \"t"), "{did}");
    assert!(did.ends_with("which is the task it was given, got \"\\\"somebody else's\\\"\""), "{did}");
}

#[test]
fn two_answers() {
    assert_eq!(
        crash(&json!({"do": "twice"})),
        "went on after its answer and was killed: it said \"{\\\"result\\\": 2}\""
    );
}

#[test]
fn a_closed_stdout() {
    assert_eq!(crash(&json!({"do": "close_stdout"})), "closed its stdout without an answer and was killed");
}

#[test]
fn a_gigabyte_on_one_line_takes_no_memory() {
    let did = crash(&json!({"do": "long_line", "megabytes": 1024}));
    assert_eq!(
        did,
        "wrote a line longer than 8388608 bytes and was killed; send less at a time or raise line_bytes_max"
    );
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    let kibibytes: u64 = peak.strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(kibibytes < 700 * 1024, "all tests together once had {kibibytes} KiB");
}

#[test]
fn a_partial_result_that_the_stream_cannot_take() {
    let failed = costs_only_its_task(moody(), &json!({"do": "large_partial", "bytes": 1 << 20}));
    assert_eq!(failed.code, ErrorCode::TooLarge);
    assert!(failed.message.contains("was stopped: expected a partial result of at most "), "{failed}");
}

#[test]
fn words_without_a_task_cost_no_task() {
    let folder = Folder::new();
    let rig = rig(moody());
    let good = result(&rig.submit(&json!({"do": "speak_later", "when": folder.file("now")})));
    assert_eq!(rig.count("crashes"), 0);
    folder.make("now");
    until("it is found out", || rig.count("crashes") == 1);
    let next = result(&rig.submit(&json!({})));
    assert_ne!(pid_in(&good), pid_in(&next), "another process");
    let told = "spoke without a task and was killed: it said \"{\\\"result\\\": \\\"nobody asked\\\"}\"";
    assert!(rig.lines().iter().any(|line| line.contains(told)), "{:#?}", rig.lines());
    rig.stop();
}

#[test]
fn an_answer_before_the_question_is_none() {
    let rig = rig(script(&["deaf.py", "answer"]));
    let failed = failure(&rig.submit(&json!({})));
    assert_eq!(failed.code, ErrorCode::HandlerCrashed);
    assert!(failed.message.ends_with("answered before it read its task and was killed"), "{failed}");
    rig.stop();
}

#[test]
fn a_program_that_is_not_there_fails_tasks_at_once() {
    let mut settings = moody();
    settings.command = vec!["no-such-program".to_owned()];
    settings.env.push(("PATH".to_owned(), "/nowhere".to_owned()));
    (settings.restart_backoff_min, settings.restart_backoff_max) = (SOON, SOON);
    let rig = rig(settings);
    let tasks: Vec<_> = (0..10).map(|n| rig.submit(&json!({"n": n}))).collect();
    for task in &tasks {
        let failed = failure(task);
        assert_eq!(failed.code, ErrorCode::HandlerCrashed);
        let expected = "handler moody: the program no-such-program was not found in PATH (/nowhere); write \
             its whole path in handler.moody.command, or set PATH in handler.moody.env; it is tried again \
             in ";
        assert!(failed.message.starts_with(expected), "{failed}");
    }
    let stats = rig.stats();
    assert_eq!((&stats["starts"], &stats["processes"], &stats["waiting"]), (&json!(0), &json!(0), &json!(0)));
    assert!(stats["broken"].as_str().unwrap().contains("was not found in PATH"), "{stats}");
    until("it rests", || rig.count("resting") == 1);
    assert!(rig.stats()["rest_ms"].as_u64().is_some(), "{}", rig.stats());
    let tried = rig.lines().iter().filter(|line| line.contains("was not found")).count();
    assert_eq!(tried, 1, "nobody tries while it rests");
    rig.stop();
}

#[test]
fn a_program_that_comes_back_is_used_again() {
    let folder = Folder::new();
    let mut settings = moody();
    settings.command = vec![folder.file("late.py")];
    let rig = rig(settings);
    let failed = failure(&rig.submit(&json!({})));
    assert!(failed.message.contains("there is no program "), "{failed}");
    let script = format!("#!{}\n{}", python(), fs::read_to_string(program("moody.py")).unwrap());
    let late = folder.file("late.py");
    fs::write(&late, script).unwrap();
    let not_executable = || failure(&rig.submit(&json!({}))).message;
    until("the file is tried", || not_executable().contains("may not be run (permission denied)"));
    Command::new("chmod").args(["+x", &late]).status().unwrap();
    until("the program is tried", || outcome(&rig.submit(&json!({}))).status() == 0);
    assert_eq!(rig.stats()["broken"], Value::Null);
    rig.stop();
}

#[test]
fn tasks_wait_while_a_program_rests_after_a_crash() {
    let mut settings = moody();
    (settings.restart_backoff_min, settings.restart_backoff_max) = (SOON, SOON);
    let rig = rig(settings);
    failure(&rig.submit(&json!({"do": "exit"})));
    let waiting = rig.submit(&json!({}));
    until("it waits", || rig.count("waiting") == 1 && rig.count("resting") == 1);
    rig.handle.cancel(waiting.id()).unwrap();
    assert_eq!(failure(&waiting).code, ErrorCode::Cancelled);
    assert_eq!(rig.count("waiting"), 0, "a task that is no longer wanted leaves the queue");
    rig.stop();
}

#[test]
fn a_panic_of_our_own_costs_one_task_and_one_process() {
    let rig = rig(moody());
    let before = pid_in(&result(&rig.submit(&json!({}))));
    let failed = failure(&rig.submit(&json!({"do": "complain", "text": PANIC_OF_THE_LOG})));
    assert_eq!(failed.code, ErrorCode::HandlerCrashed);
    let after: Vec<_> = (0..10).map(|n| rig.submit(&json!({"n": n}))).collect();
    assert!(after.iter().enumerate().all(|(n, task)| result(task)["n"] == n));
    assert!(!is_ours(before));
    assert_eq!((rig.count("crashes"), rig.count("starts")), (1, 2));
    rig.stop();
}
