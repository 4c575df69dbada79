//! Tasks in the order of their acceptance, so that a list begins with the newest and goes on from any place.
//!
//! Each task has a number, and numbers only rise, so a new one is put at the end and any other is found by
//! halving. A task that leaves makes a gap; gaps at both ends are dropped at once and those between when they
//! are more than half. So coming and leaving cost about nothing, and memory follows the tasks that are there.
//!
//! Not here: locks, and finding a task by its id (`list.rs`).

use std::collections::VecDeque;

/// So few gaps are not worth moving anything.
const GAPS_MIN: usize = 32;

/// Things by number, lowest first.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Nothing where one has left.
    places: VecDeque<(u64, Option<T>)>,
    gaps: usize,
    /// All below this number are over; see [`first_unended`](Self::first_unended).
    over_below: u64,
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self { places: VecDeque::new(), gaps: 0, over_below: 0 }
    }
}

impl<T> Order<T> {
    /// Adds one. Threads may come a little out of order.
    pub(crate) fn add(&mut self, number: u64, what: T) {
        self.over_below = self.over_below.min(number);
        match self.places.back() {
            Some((last, _)) if *last > number => {
                self.places.insert(self.first_from(number), (number, Some(what)));
            }
            _ => self.places.push_back((number, Some(what))),
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (found, what) = self.places.get(self.first_from(number))?;
        what.as_ref().filter(|_| *found == number)
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.first_from(number);
        let (found, what) = self.places.get_mut(at)?;
        let gone = what.take_if(|_| *found == number)?;
        self.gaps += 1;
        self.close_gaps();
        Some(gone)
    }

    /// The last ones below a number, highest first.
    pub(crate) fn below(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let places = self.places.range(..self.first_from(number)).rev();
        places.filter_map(|(number, what)| Some((*number, what.as_ref()?)))
    }

    /// From the first one that is not over, lowest first. What is over stays so, hence whatever was stepped
    /// over is not looked at again.
    pub(crate) fn first_unended(&mut self, is_over: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let from = self.first_from(self.over_below);
        let over =
            self.places.range(from..).take_while(|(_, what)| what.as_ref().is_none_or(&is_over)).count();
        let first = from + over;
        self.over_below = match self.places.get(first) {
            Some((number, _)) => *number,
            None => self.places.back().map_or(0, |(number, _)| number + 1),
        };
        self.places.range(first..).filter_map(|(_, what)| what.as_ref())
    }

    /// The first place whose number is not below this one.
    fn first_from(&self, number: u64) -> usize {
        self.places.partition_point(|(known, _)| *known < number)
    }

    fn close_gaps(&mut self) {
        while matches!(self.places.front(), Some((_, None))) {
            self.places.pop_front();
            self.gaps -= 1;
        }
        while matches!(self.places.back(), Some((_, None))) {
            self.places.pop_back();
            self.gaps -= 1;
        }
        if self.gaps > GAPS_MIN && self.gaps > self.places.len() / 2 {
            self.places.retain(|(_, what)| what.is_some());
            self.gaps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn order(numbers: impl IntoIterator<Item = u64>) -> Order<u64> {
        let mut order = Order::default();
        numbers.into_iter().for_each(|number| order.add(number, number));
        order
    }

    fn below(order: &Order<u64>, number: u64) -> Vec<u64> {
        order.below(number).map(|(_, what)| *what).collect()
    }

    #[test]
    fn the_newest_come_first_from_any_place_even_if_they_were_added_out_of_order() {
        let order = order([1, 2, 5, 4, 9, 3]);
        assert_eq!(below(&order, u64::MAX), [9, 5, 4, 3, 2, 1]);
        assert_eq!(below(&order, 5), [4, 3, 2, 1]);
        assert_eq!(below(&order, 8), [5, 4, 3, 2, 1], "nobody has the number 8");
        assert_eq!(below(&order, 1), [0; 0]);
        assert_eq!((order.get(4), order.get(6), order.get(10)), (Some(&4), None, None));
    }

    #[test]
    fn one_that_left_is_gone_and_its_neighbours_stay() {
        let mut order = order(1..=5);
        assert_eq!((order.remove(3), order.remove(3), order.remove(7)), (Some(3), None, None));
        assert_eq!((below(&order, 9), order.get(3)), (vec![5, 4, 2, 1], None));
        assert_eq!((order.remove(1), order.remove(5)), (Some(1), Some(5)));
        assert_eq!(order.places.len(), 3, "gaps at the ends take no room");
        order.add(6, 6);
        assert_eq!(below(&order, 9), [6, 4, 2]);
    }

    #[test]
    fn memory_follows_those_that_are_there_however_many_came() {
        let mut order = order([0, 1]);
        let mut most = 0;
        for number in 2..100_000 {
            order.add(number, number);
            order.remove(number - 1);
            most = most.max(order.places.len());
        }
        assert!(most <= 2 * GAPS_MIN, "{most} places for 2");
        assert_eq!(below(&order, u64::MAX), [99_999, 0]);
    }

    #[test]
    fn what_is_over_is_stepped_over_once() {
        let mut order = order(1..=100);
        let asked = Cell::new(0);
        let first = |order: &mut Order<u64>, over_to: u64| {
            asked.set(0);
            let is_over = |number: &u64| {
                asked.set(asked.get() + 1);
                *number <= over_to
            };
            order.first_unended(is_over).next().copied()
        };
        assert_eq!((first(&mut order, 60), asked.get()), (Some(61), 61));
        assert_eq!((first(&mut order, 61), asked.get()), (Some(62), 2));
        assert_eq!((first(&mut order, 100), asked.get()), (None, 39));
        order.add(50, 1000);
        assert_eq!(first(&mut order, 100), Some(1000), "a late one is not overlooked");
    }
}
