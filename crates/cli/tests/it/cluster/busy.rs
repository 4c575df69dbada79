//! A task that computes for longer than three leases, on a daemon whose workers are all busy with such tasks.
//!
//! The lease is the daemon's business and not the handler's: whoever computes cannot also say that it lives. Another
//! daemon is idle all the time and would be given the task if the lease ran out.

use super::books::Books;
use super::books::Work::Spin;
use super::{Crew, LEASE, until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A handler that writes down the number in its arguments and computes for a while, on a worker of the daemon.
const SOURCE: &str = r#"
#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct task {
    uint32_t opcode;
    void* args;
    uint32_t assigned_to;
    uint32_t flags;
    uint64_t task_id;
    void* result;
    uint32_t result_size;
} task_t;

void handler_spin(task_t* task) {
    const char* from = task->args;
    char line[32];
    size_t size = 0;
    while (*from && !isdigit((unsigned char)*from)) from++;
    while (isdigit((unsigned char)*from) && size < sizeof line - 1) line[size++] = *from++;
    line[size++] = '\n';
    int file = open(EXECUTIONS, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, size) != (ssize_t)size) {
        task->flags |= 2;
        return;
    }
    close(file);
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - begun.tv_sec <= SECONDS);
}
"#;

fn library(crew: &Crew) -> PathBuf {
    let folder = crew.executions().parent().unwrap().to_owned();
    let (source, library) = (folder.join("spin.c"), folder.join("libspin.so"));
    fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    compile.arg(&library).arg(&source);
    compile.arg(format!("-DEXECUTIONS=\"{}\"", crew.executions().display()));
    compile.arg(format!("-DSECONDS={}", 3 * LEASE.as_secs()));
    assert!(compile.status().expect("there is a C compiler").success());
    library
}

#[test]
fn a_task_that_computes_for_three_leases_is_given_out_once_however_busy_the_workers_are() {
    let crew = Crew::new();
    let mut books = Books::new(&crew);
    let handler = format!("[handler.spin]\nlibrary = '{}'\n", library(&crew).display());
    let member = |name| crew.member_by(name, crew.engine.address(), &handler);
    let (mut busy, mut idle) = (member("busy"), member("idle"));
    busy.start();
    books.submit(2, |_| Spin);
    until("both workers are busy", || books.executions().len() == 2);
    idle.start();
    books.wait_for_all();
    let sums = books.judge();
    assert_eq!(sums.executions, 2, "{sums:?}");
    for (number, entry) in books.results() {
        assert_eq!(
            (&entry["daemon"], &entry["deliveries"]),
            (&"busy".into(), &1.into()),
            "k{number}: {entry}"
        );
    }
    assert!(busy.figures()["renewals"].as_u64().unwrap() > 0);
}
