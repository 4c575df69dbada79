//! Who has nothing to do, in the order in which they became idle.
//!
//! The one that became idle last is woken first, as the pool does it, since its data is warmest. A strategy may also
//! choose one from the middle; so this is a list with both directions, over seats, and every step takes the same
//! short time.

/// No seat.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
    is_in: bool,
}

/// The list of idle seats.
#[derive(Debug)]
pub(crate) struct Idle {
    links: Vec<Link>,
    newest: u32,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self { links: Vec::new(), newest: NONE }
    }

    /// The seat that became idle last.
    pub(crate) fn newest(&self) -> Option<usize> {
        (self.newest != NONE).then_some(self.newest as usize)
    }

    pub(crate) fn contains(&self, seat: usize) -> bool {
        self.links.get(seat).is_some_and(|link| link.is_in)
    }

    /// Adds a seat, which is then the newest. Does nothing if it is in the list.
    pub(crate) fn add(&mut self, seat: usize) {
        if self.contains(seat) {
            return;
        }
        let out = Link { older: NONE, newer: NONE, is_in: false };
        self.links.resize(self.links.len().max(seat + 1), out);
        self.links[seat] = Link { older: self.newest, newer: NONE, is_in: true };
        if self.newest != NONE {
            self.links[self.newest as usize].newer = seat as u32;
        }
        self.newest = seat as u32;
    }

    /// Takes a seat out, wherever it stands. Does nothing if it is not in the list.
    pub(crate) fn remove(&mut self, seat: usize) {
        if !self.contains(seat) {
            return;
        }
        let Link { older, newer, .. } = self.links[seat];
        self.links[seat].is_in = false;
        if older != NONE {
            self.links[older as usize].newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            self.links[newer as usize].older = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_in_is_the_newest_and_any_may_leave() {
        let mut idle = Idle::new();
        for seat in [3, 1, 4, 1, 5] {
            idle.add(seat);
        }
        idle.remove(4);
        idle.remove(4);
        idle.remove(9);
        assert!(idle.contains(1) && !idle.contains(4) && !idle.contains(0));
        let mut order = Vec::new();
        while let Some(seat) = idle.newest() {
            idle.remove(seat);
            order.push(seat);
        }
        assert_eq!(order, [5, 1, 3]);
        idle.add(4);
        assert_eq!(idle.newest(), Some(4));
    }
}
