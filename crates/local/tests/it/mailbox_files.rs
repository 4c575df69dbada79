//! Files are rotated, cut short, removed and replaced under the door, and it neither loses lines nor trusts
//! files that are not its user's.
//!
//! Where a test waits, it waits for an answer; a line that must not be run is followed by one that must.

use crate::mailbox::{Daemon, Place, Tally, answers_in, count_line, open_for_append, settings, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "mailbox-1.json";

#[test]
fn a_file_that_is_rotated_is_read_to_its_end_and_the_next_one_from_its_start() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    let mut next = 0;
    for round in 0..5 {
        let mut old = open_for_append(&place.join(NAME));
        for _ in 0..50 {
            old.write_all(count_line(next).as_bytes()).unwrap();
            next += 1;
        }
        fs::rename(place.join(NAME), place.join(&format!("{NAME}.{round}"))).unwrap();
        place.append(NAME, &count_line(next));
        next += 1;
        until("the next file", || daemon.door.stats().rotations == round + 1);
        // Whoever had the old file open may still append to it.
        old.write_all(count_line(next).as_bytes()).unwrap();
        next += 1;
    }
    until("every line", || daemon.tally.len() as u64 == next);
    daemon.tally.assert_each_once(next);
    daemon.stop();
    let firsts = place.answers(1).iter().filter(|answer| answer["line"] == 1).count();
    assert_eq!(firsts, 6, "each file has its own line 1");
}

#[test]
fn lines_of_a_rotated_file_that_did_not_end_are_run_by_the_next_process() {
    let place = Place::new();
    let tally = Arc::default();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    place.append(NAME, &(count_line(0) + "{\"handler\":\"keep\",\"task_id\":1}\n" + &count_line(1)));
    until("its task", || daemon.kept.len() == 1 && tally.len() == 2);
    fs::rename(place.join(NAME), place.join("put-aside")).unwrap();
    place.append(NAME, &(count_line(2) + "{\"handler\":\"keep\",\"task_id\":2}\n" + &count_line(3)));
    until("the next file", || daemon.kept.len() == 2 && tally.len() == 4);
    // Nobody waits for the two that are kept: their lines have not ended.
    daemon.door.close(Duration::ZERO);
    drop(daemon);
    assert_eq!(place.bookmarks(1).len(), 2);

    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("both tasks again", || daemon.kept.len() == 2);
    daemon.kept.finish_all();
    place.append(NAME, &count_line(4));
    until("the last line", || tally.len() == 5);
    tally.assert_each_once(5);
    daemon.stop();
    let kept: BTreeSet<_> = place
        .answers(1)
        .iter()
        .filter_map(|answer| {
            Some((answer["task_id"].as_u64()?, answer["line"].as_u64()?, answer["status"].as_i64()?))
        })
        .collect();
    assert_eq!(kept, BTreeSet::from([(1, 2, 0), (2, 2, 0)]));
}

#[test]
fn the_last_line_of_a_rotated_file_needs_no_line_break() {
    let place = Place::new();
    let mut settings = settings(&place, 1);
    settings.rotation_grace = Duration::ZERO;
    let daemon = Daemon::start(settings, &Arc::default());
    place.append(NAME, count_line(0).trim_end());
    fs::rename(place.join(NAME), place.join("put-aside")).unwrap();
    place.append(NAME, &count_line(1));
    until("both lines", || daemon.tally.len() == 2);
    // Half a line is answered, since nobody will complete it.
    place.append(NAME, "{\"handler\":");
    fs::rename(place.join(NAME), place.join("put-aside-too")).unwrap();
    place.append(NAME, &count_line(2));
    until("its answer", || place.answers(1).len() == 4);
    daemon.tally.assert_each_once(3);
    let wrong: Vec<_> = place.answers(1).into_iter().filter(|answer| answer["status"] != 0).collect();
    assert_eq!(wrong.len(), 1);
    assert_eq!((&wrong[0]["line"], &wrong[0]["error"]), (&json!(2), &json!("invalid-request")));
    until("the bookmark of the present file alone", || place.bookmarks(1).len() == 1);
    daemon.stop();
}

#[test]
fn more_rotations_than_files_may_be_open_lose_nothing() {
    const FILES: u64 = 16;
    let place = Place::new();
    let mut settings = settings(&place, 1);
    // Nothing is read behind the first line until that has ended.
    settings.window_lines_max = 1;
    let daemon = Daemon::start(settings, &Arc::default());
    place.append(NAME, "{\"handler\":\"keep\"}\n");
    for number in 0..FILES {
        place.append(NAME, &(count_line(2 * number) + &count_line(2 * number + 1)));
        until("the file", || daemon.kept.len() == 1 && daemon.door.stats().rotations == number);
        fs::rename(place.join(NAME), place.join(&format!("{NAME}.{number}"))).unwrap();
    }
    place.append(NAME, &count_line(2 * FILES));
    daemon.kept.finish_all();
    until("every line", || daemon.tally.len() as u64 == 2 * FILES + 1);
    daemon.tally.assert_each_once(2 * FILES + 1);
    daemon.stop();
}

#[test]
fn a_file_that_is_cut_short_is_read_from_its_start() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    place.append(NAME, &(0..10).map(count_line).collect::<String>());
    until("ten lines", || daemon.tally.len() == 10);
    fs::File::options().write(true).open(place.join(NAME)).unwrap().set_len(0).unwrap();
    place.append(NAME, &count_line(10));
    until("the new first line", || daemon.tally.len() == 11);
    assert!(daemon.log_has("was cut short"), "{:?}", daemon.log.lock().unwrap());
    // Cut short and longer again before anybody looked: the bytes differ where it was read last.
    let longer = (11..40).map(count_line).collect::<String>();
    let mut file = fs::File::options().write(true).open(place.join(NAME)).unwrap();
    file.write_all(longer.as_bytes()).unwrap();
    until("all of the new lines", || daemon.tally.len() == 40);
    daemon.tally.assert_each_once(40);
    assert_eq!(daemon.door.stats().truncations, 2);
    daemon.stop();
    let last = place.answers(1).into_iter().map(|answer| answer["line"].as_u64().unwrap()).max();
    assert_eq!(last, Some(29), "lines are counted anew");
}

#[test]
fn a_file_that_was_replaced_while_nobody_watched_is_read_from_its_start() {
    let place = Place::new();
    let tally: Arc<Tally> = Arc::default();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    place.append(NAME, &(0..5).map(count_line).collect::<String>());
    until("five lines", || tally.len() == 5);
    daemon.stop();
    // Often the new file gets the number of the old one; writing over it keeps it for certain.
    fs::write(place.join(NAME), (5..20).map(count_line).collect::<String>()).unwrap();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("the new lines", || tally.len() == 20);
    tally.assert_each_once(20);
    assert!(daemon.log_has("is gone or was changed"));
    daemon.stop();
    fs::remove_file(place.join(NAME)).unwrap();
    place.append(NAME, &(20..30).map(count_line).collect::<String>());
    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("the lines of the new file", || tally.len() == 30);
    tally.assert_each_once(30);
    daemon.stop();
}

#[test]
fn a_file_that_has_its_name_back_goes_on_where_it_was() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    place.append(NAME, &count_line(0));
    until("the first file", || daemon.tally.len() == 1);
    fs::rename(place.join(NAME), place.join("first")).unwrap();
    place.append(NAME, &count_line(1));
    until("the second file", || daemon.tally.len() == 2);
    fs::rename(place.join("first"), place.join(NAME)).unwrap();
    place.append(NAME, &count_line(2));
    until("the first file again", || daemon.tally.len() == 3);
    let tally = Arc::clone(&daemon.tally);
    daemon.stop();
    assert_eq!(place.answers(1).last().unwrap()["line"], 2);

    // The same while nobody watches: the second file lost its name for good, so a third one changes places.
    fs::rename(place.join(NAME), place.join("first")).unwrap();
    let daemon = Daemon::start(settings(&place, 1), &tally);
    place.append(NAME, &count_line(3));
    until("the third file", || tally.len() == 4);
    daemon.stop();
    fs::rename(place.join(NAME), place.join("third")).unwrap();
    fs::rename(place.join("first"), place.join(NAME)).unwrap();
    place.append(NAME, &count_line(4));
    place.append("third", &count_line(5));
    let daemon = Daemon::start(settings(&place, 1), &tally);
    until("both files", || tally.len() == 6);
    tally.assert_each_once(6);
    daemon.stop();
}

#[test]
fn links_pipes_and_directories_are_refused() {
    let refusal = |make: &dyn Fn(&Place)| {
        let place = Place::new();
        make(&place);
        let started = Daemon::try_start(settings(&place, 1), &Arc::default(), |_| ());
        started.err().expect("it must not start").to_string()
    };
    let text = refusal(&|place| {
        place.append("target", &count_line(0));
        symlink(place.join("target"), place.join(NAME)).unwrap();
    });
    assert!(text.ends_with("got a link; remove it"), "{text}");
    let text = refusal(&|place| {
        assert!(Command::new("mkfifo").arg(place.join(NAME)).status().unwrap().success());
    });
    assert!(text.contains("expected a file of user"), "{text}");
    let text = refusal(&|place| fs::create_dir(place.join(NAME)).unwrap());
    assert!(text.contains("expected a file of user"), "{text}");
    let text = refusal(&|place| fs::write(place.join("mailbox-1.offset"), "{\"device\":1}\n").unwrap());
    assert!(text.contains("mailbox-1.offset:1: expected a bookmark"), "{text}");
    assert!(text.contains("remove it to run every line again"), "{text}");
}

#[test]
fn files_of_other_users_are_refused() {
    let place = Place::new();
    place.append(NAME, &count_line(0));
    if let Err(error) = chown(place.join(NAME), Some(12_345), None) {
        // Only root can give a file away.
        println!("nothing was tested: {error}");
        return;
    }
    let started = Daemon::try_start(settings(&place, 1), &Arc::default(), |_| ());
    let text = started.err().unwrap().to_string();
    assert!(text.contains("got one of user 12345"), "{text}");
}

#[test]
fn a_link_that_takes_the_place_of_the_file_is_not_followed() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 2), &Arc::default());
    place.append("target", &count_line(99));
    fs::remove_file(place.join(NAME)).unwrap();
    symlink(place.join("target"), place.join(NAME)).unwrap();
    until("its complaint", || daemon.log_has("got a link; remove it"));
    place.append("mailbox-2.json", &count_line(0));
    until("the other mailbox", || daemon.tally.len() == 1);
    fs::remove_file(place.join(NAME)).unwrap();
    place.append(NAME, &count_line(1));
    until("the file that took its place", || daemon.tally.len() == 2);
    daemon.tally.assert_each_once(2);
    daemon.stop();
}

#[test]
fn the_file_of_results_is_bounded_and_no_line_is_cut() {
    let place = Place::new();
    let mut settings = settings(&place, 1);
    settings.files.results_bytes_max = 2000;
    let daemon = Daemon::start(settings, &Arc::default());
    let (results, older) = (place.join("mailbox-1.results.json"), place.join("mailbox-1.results.json.1"));
    let mut seen = BTreeSet::new();
    for number in 0..200 {
        place.append(NAME, &count_line(number));
        until("its answer", || {
            let lines = [&older, &results].into_iter().flat_map(|path| answers_in(path));
            seen.extend(lines.map(|answer| answer["line"].as_u64().unwrap()));
            seen.contains(&(number + 1))
        });
        assert!(fs::metadata(&results).map_or(0, |file| file.len()) <= 2000);
    }
    daemon.stop();
    assert_eq!(seen.len(), 200);
    assert!(fs::metadata(&older).unwrap().len() <= 2000);
}

#[test]
fn a_reader_may_take_the_results_away() {
    let place = Place::new();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    place.append(NAME, &count_line(0));
    until("its answer", || place.answers(1).len() == 1);
    fs::rename(place.join("mailbox-1.results.json"), place.join("mine")).unwrap();
    place.append(NAME, &count_line(1));
    until("the next answer", || place.answers(1).len() == 1);
    assert_eq!((answers_in(&place.join("mine")).len(), &place.answers(1)[0]["line"]), (1, &json!(2)));
    daemon.stop();
}

#[test]
fn an_answer_that_a_killed_process_left_half_written_spoils_no_other() {
    let place = Place::new();
    fs::write(place.join("mailbox-1.results.json"), "{\"task_id\":1,\"stat").unwrap();
    let daemon = Daemon::start(settings(&place, 1), &Arc::default());
    place.append(NAME, &count_line(0));
    until("its line", || daemon.tally.len() == 1);
    daemon.stop();
    let text = fs::read_to_string(place.join("mailbox-1.results.json")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "{\"task_id\":1,\"stat"));
    assert_eq!(serde_json::from_str::<serde_json::Value>(lines[1]).unwrap()["line"], 1);
}

#[test]
fn mailboxes_without_a_worker_are_told_of() {
    let place = Place::new();
    place.append("mailbox-3.json", &count_line(0));
    let daemon = Daemon::start(settings(&place, 2), &Arc::default());
    assert!(daemon.log_has("mailbox-3.json: nobody reads it, since there are 2 workers"));
    daemon.stop();
}
