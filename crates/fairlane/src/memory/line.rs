//! One side of one lane: a queue in order of number, from whose middle people may walk away.
//!
//! Taking somebody out of the middle would move everybody behind them. So the entry is emptied in place and its number
//! noted; once enough are noted the queue is swept. Positions stay exact: what is noted ahead of a number is subtracted.

use std::collections::VecDeque;

/// Empty entries that are kept before the queue is swept: few enough to search, many enough to pay for the sweep.
const GONE: usize = 1_024;

#[derive(Debug)]
pub(super) struct Line<T> {
    queue: VecDeque<(u64, Option<T>)>,
    /// Numbers of the empty entries, ascending.
    gone: Vec<u64>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), gone: Vec::new() }
    }
}

impl<T> Line<T> {
    pub(super) fn len(&self) -> usize {
        self.queue.len() - self.gone.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends; numbers must ascend.
    pub(super) fn push(&mut self, number: u64, item: T) {
        debug_assert!(self.queue.back().is_none_or(|(last, _)| *last < number));
        self.queue.push_back((number, Some(item)));
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        while let Some((number, item)) = self.queue.pop_front() {
            match item {
                Some(item) => return Some(item),
                None => self.gone.retain(|gone| *gone != number),
            }
        }
        None
    }

    /// How many stand ahead of this number, if it is in the line.
    pub(super) fn ahead_of(&self, number: u64) -> Option<usize> {
        let at = self.queue.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        self.queue[at].1.as_ref()?;
        Some(at - self.gone.partition_point(|gone| *gone < number))
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.queue.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        let item = self.queue[at].1.take()?;
        let place = self.gone.partition_point(|gone| *gone < number);
        self.gone.insert(place, number);
        if self.gone.len() >= GONE {
            self.queue.retain(|(_, item)| item.is_some());
            self.gone.clear();
        }
        Some(item)
    }

    /// Gives back the memory of a crowd that has gone.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
        self.gone.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_leave_from_the_middle_and_positions_stay_exact() {
        let mut line = Line::default();
        for number in 1..=5_000u64 {
            line.push(number, number);
        }
        for number in (1..=5_000).filter(|n| n % 2 == 0) {
            assert_eq!(line.remove(number), Some(number));
            assert_eq!(line.remove(number), None);
        }
        assert_eq!(line.len(), 2_500);
        for (ahead, number) in (1..=5_000).filter(|n| n % 2 == 1).enumerate() {
            assert_eq!(line.ahead_of(number), Some(ahead));
        }
        assert_eq!(line.ahead_of(2), None);
        let served: Vec<_> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(served, (1..=5_000).filter(|n| n % 2 == 1).collect::<Vec<_>>());
        assert!(line.is_empty());
    }
}
