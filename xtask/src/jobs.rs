//! Many independent pieces of work, a few at a time, with a bar that shows how far they are.
//!
//! Each piece is a process of its own that takes from a blink to a minute, so whoever is free takes the next. What is
//! told about each comes as it ends; what is given back keeps the order of the list.
//!
//! Not here: how a process is run (`process.rs`).

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Does `work` on every item, `jobs` at a time, and shows each result as it comes. The results keep the order of the
/// items. The first error is given back when all is done.
pub(crate) fn for_each<'i, Item: Sync, Done: Send>(
    jobs: usize,
    items: &'i [Item],
    work: impl Fn(&'i Item) -> Result<Done, String> + Sync,
    show: impl Fn(&Done) + Sync,
) -> Result<Vec<Done>, String> {
    let bar = progress(items.len());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1).min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    if let Ok(result) = &result {
                        bar.suspend(|| show(result));
                    }
                    bar.inc(1);
                    done.lock().expect("a worker of ours has panicked").push((index, result));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().expect("a worker of ours has panicked");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn progress(len: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos} of {len}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(len as u64).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items_and_an_error_is_not_lost() {
        let doubled = for_each(3, &[1, 2, 3, 4, 5], |n| Ok(n * 2), |_| ()).unwrap();
        assert_eq!(doubled, [2, 4, 6, 8, 10]);
        let failed = for_each(3, &[1, 2], |n| if *n == 2 { Err("two".to_owned()) } else { Ok(()) }, |()| ());
        assert_eq!(failed.unwrap_err(), "two");
    }
}
