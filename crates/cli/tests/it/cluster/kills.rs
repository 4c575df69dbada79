//! Daemons are killed at random while tasks run, and started again: nothing is lost, nothing has two results.
//!
//! Whoever is killed holds tasks that run and tasks that wait. Their lease runs out, and others are given them as a new
//! attempt. So a task may run more than once, but never twice as the same attempt, and its result is written once.

use super::books::{Books, Work};
use super::{Crew, Member};
use crate::dice::{Dice, number, seed};

const NAMES: [&str; 3] = ["one", "two", "three"];

#[test]
fn no_task_is_lost_and_none_has_two_results_however_often_daemons_are_killed() {
    let tasks = number("MILLPOND_CLUSTER_TASKS", 1000) * NAMES.len() as u64;
    let kills = number("MILLPOND_CLUSTER_KILLS", 6);
    println!("three daemons, {tasks} tasks, {kills} kills");
    let mut dice = Dice(seed());
    let crew = Crew::new();
    let mut books = Books::new(&crew);
    let mut members = NAMES.map(|name| crew.member(name));
    members.iter_mut().for_each(Member::start);
    let mut wire = books.wire();
    let (mut killed, mut held) = (0, 0);
    while killed < kills {
        let share = (tasks - books.submitted()) / (kills - killed + 1);
        let ended = books.entries(&mut wire);
        books.submit(share, work);
        // In the middle of it: some of the share have ended, the others run or wait.
        books.wait_for(ended + dice.below(share.max(2) - 1));
        let together = if dice.below(4) == 0 { NAMES.len() as u64 } else { 1 };
        for _ in 0..together.min(kills - killed) {
            let alive: Vec<usize> = (0..NAMES.len()).filter(|at| members[*at].is_running()).collect();
            if alive.is_empty() {
                break;
            }
            members[alive[dice.below(alive.len() as u64) as usize]].kill();
            killed += 1;
        }
        held += books.left().1;
        // Some stay away until the next kill.
        let is_alone = members.iter().all(|member| !member.is_running());
        let back = |member: &&mut Member| !member.is_running();
        let stays = dice.below(4) == 0 && !is_alone;
        if !stays {
            members.iter_mut().filter(back).for_each(Member::start);
        }
    }
    members.iter_mut().filter(|member| !member.is_running()).for_each(Member::start);
    books.submit(tasks - books.submitted(), work);
    books.wait_for_all();
    let replaced = books.replaced();
    let sums = books.judge();
    println!(
        "| kills | given out at the kills, together | tasks | done | executions | tasks that ran again | most often | \
         results written over |\n\
         |---|---|---|---|---|---|---|---|\n\
         | {killed} | {held} | {} | {} | {} | {} | {} times | {replaced} |",
        sums.tasks, sums.tasks, sums.executions, sums.repeated, sums.most
    );
    assert_eq!(replaced, 0, "each result is written once");
    assert_eq!(sums.alike, 0, "what runs again is another attempt");
    assert!(sums.beyond <= held, "only what a killed daemon held runs again: {sums:?}, held {held}");
}

/// Half of the tasks are for a command, half for what is built in.
fn work(number: u64) -> Work {
    if number.is_multiple_of(2) { Work::Note } else { Work::Append }
}
