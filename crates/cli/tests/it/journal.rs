//! `millpond journal`: what an operator sees of the files, and what can be saved after damage.
//!
//! The commands are used in trouble, so each trouble has its message: a damaged file, one of somebody else, a directory
//! that is none or that may not be read, a daemon that is still there. After a repair a daemon must start again and
//! have what the repair said.

use crate::daemon::{Daemon, Folder, Ran};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SEGMENT: &str = "log-0000000000000001.mill";

/// A folder whose settings name a journal in it.
fn home() -> Folder {
    let folder = Folder::new();
    folder.write("millpond.toml", &settings(&folder));
    folder
}

fn settings(home: &Folder) -> String {
    // Tasks that are yet to run are kept, and need not be waited for.
    let journal = home.path().join("journal");
    format!("workers = 2\ndrain_timeout = \"100ms\"\njournal.dir = \"{}\"\n", journal.display())
}

/// A daemon with the journal of this folder, and a folder of its own for the rest.
fn serve(home: &Folder) -> Daemon {
    let folder = Folder::new();
    folder.write("millpond.toml", &settings(home));
    let command = folder.millpond(&["serve", "--json"]);
    Daemon::started_by(command, folder)
}

/// A journal with tasks `row0` to `row9` that are yet to run, closed in good order.
fn written() -> Folder {
    let home = home();
    let mut daemon = serve(&home);
    for number in 0..10 {
        let request = format!(r#"{{"task_id": "row{number}", "handler": "echo", "delay_ms": 600000}}"#);
        daemon.run(&["submit", &request]).quietly();
    }
    daemon.terminate();
    assert_eq!(daemon.ended(), Some(0));
    home
}

fn segment(folder: &Folder) -> PathBuf {
    folder.path().join("journal").join(SEGMENT)
}

/// Changes what record `task` says.
fn damage(folder: &Folder, task: &str) {
    let bytes = fs::read(segment(folder)).unwrap();
    let place = bytes.windows(task.len()).position(|window| window == task.as_bytes()).unwrap();
    let file = fs::File::options().write(true).open(segment(folder)).unwrap();
    file.write_all_at(b"??", place as u64).unwrap();
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("journal")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn error(ran: &Ran) -> &str {
    ran.err.lines().next().unwrap_or_default()
}

#[test]
fn the_status_of_a_sound_journal_is_told_with_and_without_a_daemon() {
    let folder = written();
    let daemon = serve(&folder);
    let during = daemon.run(&["journal", "status", "--json"]).with_code(0).json();
    assert_eq!(during[0]["is_sound"], true, "{during:?}");
    drop(daemon);
    let table = folder.run(&["journal", "status"]).quietly();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["file", "size", "used", "records", "state"]);
    assert_eq!((rows[2][0], rows[2].last()), (SEGMENT, Some(&"sound")), "{table}");
    let status = folder.run(&["journal", "status", "journal", "--json"]).with_code(0).json().remove(0);
    assert_eq!((&status["is_sound"], &status["files"][0]["state"]), (&json!(true), &json!("sound")));
    assert!(status["log_records"].as_u64() >= Some(10), "{status}");
    let ran = folder.run(&["journal", "repair"]).quietly();
    assert!(ran.starts_with("nothing had to be mended; "), "{ran}");
}

#[test]
fn a_damaged_record_costs_itself_and_the_rest_comes_back() {
    let folder = written();
    damage(&folder, "row4");
    let ran = folder.run(&["journal", "status"]).with_code(1);
    assert!(ran.out.contains("damaged: at byte ") && ran.out.contains("checksum"), "{ran:?}");
    let journal = folder.path().join("journal").display().to_string();
    let advice = format!("`millpond journal repair {journal}` saves what is whole");
    assert_eq!(error(&ran), format!("error: a start would refuse this journal; {advice}"));
    let refused = folder.run(&["serve"]).with_code(1);
    assert!(
        refused.err.contains(SEGMENT) && refused.err.contains("`millpond journal repair`"),
        "{refused:?}"
    );

    let whole = fs::read(segment(&folder)).unwrap();
    let report = folder.run(&["journal", "repair"]).quietly();
    let aside = format!("damaged-0001-{SEGMENT}");
    assert!(report.contains(&format!("the damaged file is kept as {aside}\n")), "{report}");
    assert!(report.ends_with("at least 1 lost; a daemon starts with this journal again\n"), "{report}");
    assert_eq!(names(&folder), [&*aside, "lock", SEGMENT]);
    assert_eq!(fs::read(folder.path().join("journal").join(&aside)).unwrap(), whole, "it is kept as it was");
    folder.run(&["journal", "status"]).quietly();

    let daemon = serve(&folder);
    let tasks = daemon.run(&["ls", "--json"]).json();
    let mut found: Vec<&str> = tasks.iter().filter_map(|task| task["task_id"].as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["row0", "row1", "row2", "row3", "row5", "row6", "row7", "row8", "row9"]);
}

#[test]
fn a_repair_can_be_read_by_a_script() {
    let folder = written();
    damage(&folder, "row5");
    let report = folder.run(&["journal", "repair", "--json"]).with_code(0).json().remove(0);
    let file = &report["files"][0];
    assert_eq!((&file["name"], &file["records_lost"]), (&json!(SEGMENT), &json!(1)), "{report}");
    assert_eq!(report["records_lost"], 1);
    let again = folder.run(&["journal", "repair", "--json"]).with_code(0).json().remove(0);
    assert_eq!(again["files"], json!([]), "{again}");
    assert_eq!(again["records_kept"], report["records_kept"]);
}

#[test]
fn a_file_that_was_cut_off_gives_what_is_left_of_it() {
    let folder = written();
    let file = fs::File::options().write(true).open(segment(&folder)).unwrap();
    file.set_len(5000).unwrap();
    let ran = folder.run(&["journal", "status"]).with_code(1);
    assert!(ran.out.contains("the file has 5000 bytes and was made with "), "{ran:?}");
    let report = folder.run(&["journal", "repair"]).quietly();
    assert!(report.contains("it is not as long as it was made"), "{report}");
    assert!(report.contains("at least 0 lost"), "what was cut off cannot be counted: {report}");
    let daemon = serve(&folder);
    assert!(!daemon.run(&["ls", "--json"]).json().is_empty());
}

#[test]
fn a_file_of_somebody_else_is_named_and_put_aside_by_a_repair() {
    let folder = written();
    folder.write("journal/log-0000000000000002.mill", "hello");
    let ran = folder.run(&["journal", "status"]).with_code(1);
    assert!(ran.out.contains("damaged: not a journal file"), "{ran:?}");
    let refused = folder.run(&["serve"]).with_code(1);
    assert!(
        refused.err.contains("not a journal file; move it away or choose another directory"),
        "{refused:?}"
    );
    folder.run(&["journal", "repair"]).quietly();
    let kept = fs::read(folder.path().join("journal/damaged-0001-log-0000000000000002.mill")).unwrap();
    assert_eq!(kept, b"hello");
    let daemon = serve(&folder);
    assert_eq!(daemon.run(&["ls", "--json"]).json().len(), 10);
}

#[test]
fn noise_is_not_taken_for_a_journal() {
    let folder = written();
    let file = fs::File::options().write(true).open(segment(&folder)).unwrap();
    file.write_all_at(&[0xA5; 4096], 0).unwrap();
    let ran = folder.run(&["journal", "repair"]).with_code(1);
    assert!(error(&ran).contains("no file has a readable header"), "{ran:?}");
    assert!(error(&ran).ends_with("put back a copy of the directory"), "{ran:?}");
    assert_eq!(names(&folder), ["lock", SEGMENT], "nothing was moved");
}

#[test]
fn a_directory_without_a_journal_is_said_to_be_one_and_left_alone() {
    let folder = Folder::new();
    folder.write("somewhere/letter", "hello");
    for command in ["status", "repair"] {
        let said = |place: &str| error(&folder.run(&["journal", command, place]).with_code(1)).to_owned();
        let elsewhere = "say which directory has the journal; `millpond serve --journal DIR` begins one";
        assert_eq!(said("nowhere"), format!("error: nowhere: there is no such directory; {elsewhere}"));
        assert_eq!(
            said("somewhere/letter"),
            format!("error: somewhere/letter: not a directory; {elsewhere}")
        );
        assert_eq!(said("somewhere"), format!("error: somewhere: no journal lies here; {elsewhere}"));
        let ran = folder.run(&["journal", command]).with_code(2);
        assert_eq!(
            error(&ran),
            "error: the settings name no journal; say which directory, or set journal.dir"
        );
    }
    assert_eq!(fs::read_dir(folder.path().join("somewhere")).unwrap().count(), 1, "no lock was left there");
    folder.write("millpond.toml", "workers = \"many\"\njournal.dir = \"/var/lib/millpond\"\n");
    let ran = folder.run(&["journal", "status"]).with_code(2);
    assert!(error(&ran).starts_with("error: the configuration has mistakes"), "{ran:?}");
    assert!(error(&ran).contains("`millpond check` shows them"), "{ran:?}");
}

#[test]
fn a_journal_in_use_is_not_repaired() {
    let folder = home();
    let daemon = serve(&folder);
    let ran = daemon.run(&["journal", "repair"]).with_code(1);
    let expected = format!("another process has this journal open (pid {})", daemon.process());
    assert!(error(&ran).contains(&expected), "{ran:?}");
    assert!(error(&ran).ends_with("end it, or choose another directory"), "{ran:?}");
}

/// The program without the right to read everything, which root has.
fn without_privileges(folder: &Folder, arguments: &[&str]) -> Ran {
    let plain = folder.millpond(arguments);
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
        .arg(plain.get_program())
        .args(plain.get_args());
    command.env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path()).stdin(Stdio::null());
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let mut command = if is_root { command } else { plain };
    command.output().expect("setpriv is a part of util-linux").into()
}

#[test]
fn what_may_not_be_read_is_named_with_whose_it_should_be() {
    let folder = written();
    let journal = folder.path().join("journal");
    let advice = "let the user who runs this own the directory and its files";
    let allow = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    allow(&segment(&folder), 0o000);
    for command in [["journal", "status"], ["journal", "repair"]] {
        let ran = without_privileges(&folder, &command).with_code(1);
        assert!(error(&ran).contains(SEGMENT) && error(&ran).ends_with(advice), "{ran:?}");
    }
    allow(&segment(&folder), 0o600);
    allow(&journal, 0o000);
    for command in [["journal", "status"], ["journal", "repair"]] {
        let ran = without_privileges(&folder, &command).with_code(1);
        assert!(error(&ran).contains("cannot be listed: Permission denied"), "{ran:?}");
        assert!(error(&ran).ends_with(advice), "{ran:?}");
    }
    let ran = without_privileges(&folder, &["serve"]).with_code(1);
    assert!(ran.err.contains("Permission denied") && ran.err.contains(advice), "{ran:?}");
    allow(&journal, 0o700);
    without_privileges(&folder, &["journal", "status"]).with_code(0);
}
