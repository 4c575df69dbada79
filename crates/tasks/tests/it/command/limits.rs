//! What a process may take: memory, processor time, room in the log.
//!
//! Whoever wants more is told which limit it was.

use super::*;
use millpond_tasks::ErrorCode;

#[test]
fn a_process_that_wants_too_much_memory_is_told_so() {
    let rig = rig(HandlerSettings { memory_bytes_max: Some(256 << 20), ..moody() });
    result(&rig.submit(&json!({"do": "allocate", "bytes": 32 << 20})));
    let failed = failure(&rig.submit(&json!({"do": "allocate", "bytes": 1 << 30})));
    assert_eq!(failed.code, ErrorCode::HandlerCrashed);
    let expected =
        "exited with status 1 before it answered: it ran out of memory (memory_bytes_max = 268435456)";
    assert!(failed.message.contains(expected), "{failed}");
    assert!(failed.message.ends_with("MemoryError"), "{failed}");
    result(&rig.submit(&json!({})));
    rig.stop();
}

#[test]
fn a_process_that_uses_too_much_time_is_told_so() {
    let rig = rig(HandlerSettings { cpu_seconds_max: Some(1), ..moody() });
    let failed = failure(&rig.submit(&json!({"do": "burn"})));
    assert_eq!(failed.code, ErrorCode::HandlerCrashed);
    let expected = "was killed by signal 24 (SIGXCPU) while it worked: it used up its processor time \
         (cpu_seconds_max = 1)";
    assert!(failed.message.ends_with(expected), "{failed}");
    result(&rig.submit(&json!({})));
    rig.stop();
}

#[test]
fn stderr_goes_to_the_log_and_to_the_task() {
    let rig = rig(moody());
    let (task, said) = rig.stream(&json!({"do": "flood", "lines": 0})).all();
    let pid = pid_in(&result(&task));
    let expected = format!("handler moody (pid {pid}): the last line");
    assert!(rig.lines().contains(&expected), "{:#?}", rig.lines());
    let of_task: Vec<_> = said.iter().filter_map(|event| event.get("log")?.as_str()).collect();
    assert_eq!(of_task, ["the last line"], "said before the answer, so it belongs to the task");
    rig.stop();
}

#[test]
fn a_flood_on_stderr_is_cut_and_the_task_ends() {
    let rig = rig(moody());
    let begin = Instant::now();
    result(&rig.submit(&json!({"do": "flood", "lines": 200_000})));
    // Some lines at once, and some for each second that it took.
    let most = 250 + 100 * (begin.elapsed().as_secs() as usize + 1);
    let lines = rig.lines();
    let told = lines.iter().filter(|line| line.ends_with("xxx")).count();
    assert!((1..=most).contains(&told), "{told} lines, expected at most {most}");
    rig.stop();
}

#[test]
fn what_a_flood_left_out_is_counted() {
    let rig = rig(moody());
    result(&rig.submit(&json!({"do": "flood", "lines": 200_000})));
    let log = Arc::clone(&rig.log);
    rig.stop();
    let log = log.lock().unwrap();
    let left_out = |line: &str| -> Option<usize> {
        line.split_once("): (")?.1.strip_suffix(" lines left out)")?.parse().ok()
    };
    let cut: usize = log.iter().filter_map(|(_, line)| left_out(line)).sum();
    let told =
        log.iter().filter(|(_, line)| line.ends_with("xxx") || line.ends_with("the last line")).count();
    assert_eq!(told + cut, 200_001);
}
