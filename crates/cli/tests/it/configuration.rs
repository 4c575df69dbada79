//! `millpond check` and `millpond config`: which file counts, what is said about it, and what is effective.
//!
//! The sentences about single mistakes are tested where they are made; here it is how they reach a person.

use crate::daemon::Folder;

const MISTAKES: &str =
    "workers = 4\nwrokers = 4\n\n[stealing]\nsize = \"hafl\"\n\n[scaling]\nworkers_min = 9\n";

#[test]
fn every_mistake_is_told_with_its_line_and_a_mark() {
    let folder = Folder::new();
    folder.write("millpond.toml", MISTAKES);
    let ran = folder.run(&["check"]).with_code(1);
    assert_eq!(ran.err, "");
    assert_eq!(
        ran.out,
        "millpond.toml:2:1: error: expected a known setting, got \"wrokers\"; did you mean workers?\n  \
         2 | wrokers = 4\n    | ^\n\
         millpond.toml:5:8: error: stealing.size: expected one of one, half, all, got the text \"hafl\"; did \
         you mean half?\n  5 | size = \"hafl\"\n    |        ^\n\
         millpond.toml:8:1: note: scaling.workers_min: it has no effect while scaling.enabled is false \
         (default); it counts with true\n  8 | workers_min = 9\n    | ^\n\
         millpond.toml: 2 mistakes, 1 note\n"
    );
}

#[test]
fn programs_get_the_findings_as_json() {
    let folder = Folder::new();
    folder.write("millpond.toml", MISTAKES);
    let ran = folder.run(&["check", "--json"]).with_code(1);
    let said = &ran.json()[0];
    assert_eq!((said["errors"].as_u64(), said["notes"].as_u64()), (Some(2), Some(1)), "{said}");
    assert_eq!(said["findings"][1]["source"]["line"], 5, "{said}");
}

#[test]
fn a_file_without_mistakes_is_fine_and_so_is_none() {
    let folder = Folder::new();
    let none = "no file (neither millpond.toml nor config/config is here): no mistakes\n";
    assert_eq!(folder.run(&["check"]).quietly(), none);
    folder.write("other.toml", "workers = 2\n");
    assert_eq!(folder.run(&["check", "other.toml"]).quietly(), "other.toml: no mistakes\n");
    let ran = folder.run(&["check", "nosuch.toml"]).with_code(2);
    assert!(ran.err.starts_with("error: check nosuch.toml: the file cannot be read: "), "{ran:?}");
}

#[test]
fn a_program_that_is_not_there_is_worth_a_note() {
    let folder = Folder::new();
    let handlers = "[handler.a]\ncommand = ['sh']\n[handler.b]\ncommand = ['no-such-program']\n\
                    [handler.c]\ncommand = ['./own']\n\
                    [handler.d]\ncommand = ['sh']\nenv = { PATH = '/nowhere' }\n";
    folder.write("millpond.toml", handlers);
    let said = folder.run(&["check"]).quietly();
    let notes: Vec<_> = said.lines().filter(|line| line.contains(": note: ")).collect();
    let of = |line, handler, program, place| {
        format!(
            "millpond.toml:{line}:1: note: handler.{handler}.command: expected a program that can be run, \
             got {program:?}, which is not {place}; tasks of this handler will fail until it is"
        )
    };
    let expected =
        [of(4, "b", "no-such-program", "in PATH"), of(6, "c", "./own", "there"), of(8, "d", "sh", "in PATH")];
    assert_eq!(notes, expected);
    assert!(said.ends_with("millpond.toml: no mistakes, 3 notes\n"), "{said}");
}

#[test]
fn a_mistake_in_the_environment_is_found_too() {
    let folder = Folder::new();
    let output = folder.millpond(&["check"]).env("MILLPOND_WORKERS", "many").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("MILLPOND_WORKERS: error: expected a whole number"), "{said}");
}

#[test]
fn the_file_is_the_one_that_was_named_or_the_first_that_is_there() {
    let folder = Folder::new();
    let workers = |arguments: &[&str], variable: Option<&str>| {
        let mut command = folder.millpond(&[&["config", "--changed"], arguments].concat());
        command.envs(variable.map(|file| ("MILLPOND_CONFIG", file)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(workers(&[], None), "# no file\n# everything is at its default\n");
    folder.write("config/config", "thread_count=2\n");
    assert_eq!(workers(&[], None), "# config/config\nworkers  = 2  # config/config:1\n");
    folder.write("millpond.toml", "workers = 3\n");
    assert_eq!(workers(&[], None), "# millpond.toml\nworkers  = 3  # millpond.toml:1\n");
    folder.write("a.toml", "workers = 4\n");
    assert_eq!(workers(&[], Some("a.toml")), "# a.toml\nworkers  = 4  # a.toml:1\n");
    assert_eq!(
        workers(&[], Some("")),
        "# millpond.toml\nworkers  = 3  # millpond.toml:1\n",
        "empty is not set"
    );
    folder.write("b.toml", "workers = 5\n");
    assert_eq!(workers(&["--config", "b.toml"], Some("a.toml")), "# b.toml\nworkers  = 5  # b.toml:1\n");
    assert_eq!(workers(&["--workers", "6"], Some("a.toml")), "# a.toml\nworkers  = 6  # --workers\n");
}

#[test]
fn every_setting_has_a_row_and_a_flag() {
    let folder = Folder::new();
    let rows = folder.run(&["config", "--json"]).json()[0]["settings"].as_array().unwrap().clone();
    assert!(rows.len() > 80, "{}", rows.len());
    let help = folder.run(&["config", "--help"]).quietly();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let flag = format!("--{} ", name.replace(['.', '_'], "-"));
        assert!(help.contains(&flag), "{flag}is not in the help");
    }
    let text = folder.run(&["config"]).quietly();
    assert_eq!(text.lines().count(), rows.len() + 1, "and the file's name");
}

#[test]
fn a_flag_without_its_value_switches_on_and_a_path_is_meant_from_here() {
    let folder = Folder::new();
    let changed = folder.run(&["config", "--changed", "--pin", "--runtime-dir", "run"]).quietly();
    let run = folder.path().join("run");
    let lines: Vec<Vec<&str>> =
        changed.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["pin", "=", "true", "#", "--pin"]);
    assert_eq!(lines[1], ["runtime_dir", "=", &*format!("{run:?}"), "#", "--runtime-dir"]);
}

#[test]
fn values_are_shown_beside_mistakes() {
    let folder = Folder::new();
    folder.write("millpond.toml", MISTAKES);
    let ran = folder.run(&["config", "--changed"]).with_code(1);
    assert!(ran.out.contains("workers              = 4  # millpond.toml:1\n"), "{ran:?}");
    assert_eq!(ran.err.matches("error: millpond.toml:").count(), 2, "{ran:?}");
    let ran = folder.run(&["config", "--workers", "0"]).with_code(1);
    assert!(ran.err.contains("error: --workers: expected a whole number from 1 to 4096"), "{ran:?}");
}
