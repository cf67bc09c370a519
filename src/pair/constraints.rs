//! Sets of placeholder pairs, and which of them fit together.
//!
//! When a fragment of one pair is laid onto an equal fragment of another, each
//! placeholder `a` of the first falls onto one `b` of the second: the fragments' *constraint*
//! is the set of these `(a, b)`. It can be met by renaming iff it is a partial bijection:
//! no two members share exactly one end. That is a property of two members at a time, so
//! the pairs that occur are numbered once per kernel value, and a constraint is a set of
//! bits, its consistency one `and` with the conflicts of its members.
//!
//! # Complexity
//! Up to 64 pairs are one word, up to 256 four; more are as many words as it takes. The
//! algorithms are written once, over [`Bits`].

use std::hash::Hash;

use crate::kernel::Number;
use crate::memory::{self, Map};
use crate::{Context, Error};

/// A set of small numbers. Sets that meet have room for equally many.
pub(crate) trait Bits: Ord + Hash + Send + Sized {
    /// The most numbers there can be room for.
    const MAX_ROOM: usize;

    /// The empty set, with room for `0..room`.
    ///
    /// # Errors
    /// [`Error::Memory`], as all that makes a set.
    fn empty(room: usize) -> crate::Result<Self>;
    /// The same set.
    fn copied(&self) -> crate::Result<Self>;
    fn words(&self) -> &[u64];
    fn words_mut(&mut self) -> &mut [u64];

    #[inline]
    fn insert(&mut self, bit: usize) {
        self.words_mut()[bit / 64] |= 1 << (bit % 64);
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        self.words_mut().iter_mut().zip(other.words()).for_each(|(a, b)| *a |= b);
    }

    #[inline]
    fn keep(&mut self, other: &Self) {
        self.words_mut().iter_mut().zip(other.words()).for_each(|(a, b)| *a &= b);
    }

    #[inline]
    fn remove(&mut self, other: &Self) {
        self.words_mut().iter_mut().zip(other.words()).for_each(|(a, b)| *a &= !b);
    }

    #[inline]
    fn and(&self, other: &Self) -> crate::Result<Self> {
        let mut both = self.copied()?;
        both.keep(other);
        Ok(both)
    }

    #[inline]
    fn or(&self, other: &Self) -> crate::Result<Self> {
        let mut either = self.copied()?;
        either.add(other);
        Ok(either)
    }

    #[inline]
    fn meets(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).any(|(a, b)| a & b != 0)
    }

    #[inline]
    fn is_within(&self, other: &Self) -> bool {
        self.words().iter().zip(other.words()).all(|(a, b)| a & !b == 0)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.words().iter().all(|&word| word == 0)
    }

    #[inline]
    fn count(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }

    /// How many members are in both.
    #[inline]
    fn count_with(&self, other: &Self) -> u32 {
        self.words().iter().zip(other.words()).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// The members, ascending.
    fn members(&self) -> impl Iterator<Item = usize> {
        self.words().iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(64 * index + bit)
            })
        })
    }
}

impl Bits for u64 {
    const MAX_ROOM: usize = 64;

    #[inline]
    fn empty(_room: usize) -> crate::Result<Self> {
        Ok(0)
    }

    #[inline]
    fn copied(&self) -> crate::Result<Self> {
        Ok(*self)
    }

    #[inline]
    fn words(&self) -> &[u64] {
        std::slice::from_ref(self)
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        std::slice::from_mut(self)
    }
}

impl<const N: usize> Bits for [u64; N] {
    const MAX_ROOM: usize = 64 * N;

    #[inline]
    fn empty(_room: usize) -> crate::Result<Self> {
        Ok([0; N])
    }

    #[inline]
    fn copied(&self) -> crate::Result<Self> {
        Ok(*self)
    }

    #[inline]
    fn words(&self) -> &[u64] {
        self
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        self
    }
}

impl Bits for Vec<u64> {
    const MAX_ROOM: usize = usize::MAX;

    fn empty(room: usize) -> crate::Result<Self> {
        memory::filled(0, room.div_ceil(64))
    }

    fn copied(&self) -> crate::Result<Self> {
        memory::copied(self)
    }

    fn words(&self) -> &[u64] {
        self
    }

    fn words_mut(&mut self) -> &mut [u64] {
        self
    }
}

/// A pair of placeholders, of the first instance and of the second, as one number.
#[inline]
pub(crate) fn code(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

/// The pairs that occur in a kernel value, numbered, with their conflicts.
#[derive(Debug)]
pub(crate) struct Universe<B> {
    /// Ascending; a pair's place is its number.
    pub(crate) codes: Vec<u64>,
    /// Per pair: those that share exactly one end with it.
    pub(crate) conflicts: Vec<B>,
}

impl<B: Bits> Universe<B> {
    /// Of distinct codes, ascending.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(codes: Vec<u64>) -> crate::Result<Self> {
        let room = codes.len();
        // 1. By end: the pairs that have it.
        let mut of_end: [Map<u32, B>; 2] = Default::default();
        let ends = |code: u64| [(code >> 32) as u32, code as u32];
        for (bit, &code) in codes.iter().enumerate() {
            for (sharing, end) in of_end.iter_mut().zip(ends(code)) {
                if !sharing.contains_key(&end) {
                    sharing.insert(end, B::empty(room)?)?;
                }
                if let Some(sharing) = sharing.get_mut(&end) {
                    sharing.insert(bit); // has room
                }
            }
        }
        // 2. Those that share either end. Pairs are distinct, so only the pair itself
        // shares both.
        let mut conflicts = Vec::new();
        memory::reserve(&mut conflicts, room)?;
        for (bit, &code) in codes.iter().enumerate() {
            let mut sharing_either = B::empty(room)?;
            for (sharing, end) in of_end.iter().zip(ends(code)) {
                sharing_either.add(&sharing[&end]);
            }
            let mut itself = B::empty(room)?;
            itself.insert(bit); // has room
            sharing_either.remove(&itself);
            memory::push(&mut conflicts, sharing_either)?;
        }
        Ok(Self { codes, conflicts })
    }

    /// The empty set.
    #[inline]
    pub(crate) fn none(&self) -> crate::Result<B> {
        B::empty(self.codes.len())
    }

    /// The number of a pair that is there.
    #[inline]
    pub(crate) fn bit(&self, code: u64) -> Option<usize> {
        self.codes.binary_search(&code).ok()
    }

    /// All that some member of a set is in conflict with.
    #[inline]
    pub(crate) fn conflicts_of(
        &self,
        set: &B,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<B> {
        let mut conflicts = self.none()?;
        for bit in set.members() {
            conflicts.add(&self.conflicts[bit]);
            budget.work(conflicts.words().len())?;
        }
        Ok(conflicts)
    }
}

/// Keeps of sorted, distinct codes those that share an end with another one.
pub(crate) fn retain_conflicting(
    codes: &mut Vec<u64>,
    seconds: &mut Vec<u32>,
) -> crate::Result<()> {
    seconds.clear();
    memory::extend(seconds, codes.iter().map(|&code| code as u32))?;
    seconds.sort_unstable();
    let is_shared = |index: usize| {
        let first = codes[index] >> 32;
        // Codes are sorted by their first end, so those that share it are neighbours.
        let same = |other: Option<&u64>| other.is_some_and(|o| o >> 32 == first);
        if same(codes.get(index + 1)) || index > 0 && same(codes.get(index - 1)) {
            return true;
        }
        // Second ends are sorted apart: a neighbour that is equal is another pair's.
        let second = codes[index] as u32;
        let at = seconds.partition_point(|&other| other < second);
        seconds.get(at + 1) == Some(&second)
    };
    let kept = (0..codes.len()).filter(|&i| is_shared(i)).map(|i| codes[i]);
    *codes = memory::collect(kept)?;
    Ok(())
}

/// Why a value was not computed.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The budget is spent.
    Limit,
    /// Whoever is asked whether to go on says no.
    Error(Error),
}

/// What costs no more than it may.
pub(crate) type Bounded<T> = Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Bytes that one set may have where limits are set to the number of sets.
const MAX_SET_BYTES: u64 = 1 << 10;
/// Steps between two looks at their limit.
const STEPS_BETWEEN_CHECKS: u64 = 1 << 18;
/// Words of sets between two questions whether to go on: about a millisecond.
const WORDS_BETWEEN_CHECKS: usize = 1 << 20;
/// How many steps may be taken for each set that may be held. (100 were too few for two
/// chains of 80 nodes, all of whose 3,240 parts are in conflict with most of the other's.)
const STEPS_PER_SET: u64 = 500;

/// What one kernel value may cost: sets of pairs that are held at the same time, and, so
/// that time has an end as well, comparisons of two sets.
pub(crate) struct Budget<'p, 'q> {
    /// The limit: how many sets may be held at a time.
    sets: u64,
    /// How many are held.
    held: u64,
    /// Comparisons made so far.
    steps: u64,
    /// At how many steps their limit is looked at next.
    next_check: u64,
    /// Words of a set.
    pub(crate) width: usize,
    /// Words gone through since the last question whether to go on.
    worked: usize,
    context: &'p Context<'q>,
}

impl<'p, 'q> Budget<'p, 'q> {
    pub(crate) fn new(max_constraints: u64, context: &'p Context<'q>) -> Self {
        let next_check = STEPS_BETWEEN_CHECKS;
        let sets = max_constraints;
        Self { sets, held: 0, steps: 0, next_check, width: 1, worked: 0, context }
    }

    /// What sets may take in memory before any of them was counted.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.sets.saturating_mul(MAX_SET_BYTES).max(1 << 20)
    }

    /// How many more sets may be held.
    pub(crate) fn left(&self) -> usize {
        usize::try_from(self.sets - self.held).unwrap_or(usize::MAX)
    }

    /// So many sets are held from now on.
    pub(crate) fn hold(&mut self, sets: usize) -> Bounded<()> {
        self.held += sets as u64;
        if self.held > self.sets { Err(Stop::Limit) } else { Ok(()) }
    }

    /// So many are not held any more.
    pub(crate) fn release(&mut self, sets: usize) {
        self.held -= sets as u64;
    }

    /// So many comparisons are about to be made.
    #[inline]
    pub(crate) fn step(&mut self, steps: usize) -> Bounded<()> {
        self.steps += steps as u64;
        self.work((steps + 1) * self.width)?;
        if self.steps >= self.next_check {
            self.next_check = self.steps + STEPS_BETWEEN_CHECKS;
            if self.steps > self.sets.saturating_mul(STEPS_PER_SET) {
                return Err(Stop::Limit);
            }
        }
        Ok(())
    }

    /// Asks now and then whether to go on, of work that no limit is set to.
    #[inline]
    pub(crate) fn work(&mut self, words: usize) -> Bounded<()> {
        self.worked += words;
        if self.worked >= WORDS_BETWEEN_CHECKS {
            self.worked = 0;
            self.context.check_now()?;
        }
        Ok(())
    }
}

/// Adds up the weights of equal keys.
pub(crate) fn merge<B: Bits, N: Number>(map: &mut Vec<(B, N)>) {
    if map.len() < 2 {
        return;
    }
    map.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    map.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1 + next.1;
        }
        same
    });
}

/// The sets that are inside no other one, larger ones first.
pub(crate) fn maximal<B: Bits>(
    mut sets: Vec<B>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<B>> {
    sets.sort_unstable();
    sets.dedup();
    // Sorted again by a stable sort: the order is one and the same on every machine.
    memory::sort_by_key(&mut sets, |set| std::cmp::Reverse(set.count()))?;
    let mut kept: Vec<B> = Vec::new();
    for set in sets {
        budget.step(kept.len())?;
        if !kept.iter().any(|larger| set.is_within(larger)) {
            memory::push(&mut kept, set)?;
        }
    }
    Ok(kept)
}

/// All intersections of some of the sets (C*), the empty set included, larger ones first.
pub(crate) fn intersections<B: Bits>(
    sets: &[B],
    none: B,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<B>> {
    // The given sets are held by the caller already, so only new ones count here.
    let mut seen: Map<B, ()> = Map::default();
    let mut found: Vec<B> = Vec::new();
    for set in sets {
        seen.insert(set.copied()?, ())?;
        memory::push(&mut found, set.copied()?)?;
    }
    // Every intersection is one of fewer sets, met with one more set.
    let mut next = 0;
    while next < found.len() {
        budget.step(sets.len())?;
        for set in sets {
            let both = found[next].and(set)?;
            if !seen.contains_key(&both) {
                budget.hold(1)?;
                seen.insert(both.copied()?, ())?;
                memory::push(&mut found, both)?;
            }
        }
        next += 1;
    }
    // From here on the caller holds what it keeps of them.
    budget.release(found.len() - sets.len());
    if !seen.contains_key(&none) {
        memory::push(&mut found, none)?;
    }
    found.sort_unstable();
    memory::sort_by_key(&mut found, |set| std::cmp::Reverse(set.count()))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<B: Bits>(room: usize, members: &[usize]) -> B {
        let mut set = B::empty(room).unwrap();
        for &bit in members {
            set.insert(bit);
        }
        set
    }

    fn sets_of_every_width_agree<B: Bits + std::fmt::Debug>() {
        let room = B::MAX_ROOM.min(200);
        let top = room - 1;
        let (a, b) = (set::<B>(room, &[0, 3, top]), set::<B>(room, &[3, 5]));
        assert_eq!(a.members().collect::<Vec<_>>(), [0, 3, top]);
        assert_eq!(a.and(&b).unwrap(), set(room, &[3]));
        assert_eq!(a.or(&b).unwrap(), set(room, &[0, 3, 5, top]));
        assert!(a.meets(&b) && !a.is_within(&b) && set::<B>(room, &[3]).is_within(&a));
        assert_eq!(a.count(), 3);
        let mut rest = a.copied().unwrap();
        rest.remove(&b);
        assert_eq!(rest, set(room, &[0, top]));
        assert!(B::empty(room).unwrap().is_empty() && !a.is_empty());
    }

    #[test]
    fn sets_are_the_same_at_every_width() {
        sets_of_every_width_agree::<u64>();
        sets_of_every_width_agree::<[u64; 4]>();
        sets_of_every_width_agree::<Vec<u64>>();
    }

    #[test]
    fn pairs_that_share_exactly_one_end_are_in_conflict() {
        let codes = vec![code(1, 1), code(1, 2), code(2, 1), code(2, 2), code(3, 3)];
        let mut conflicting = codes.clone();
        retain_conflicting(&mut conflicting, &mut Vec::new()).unwrap();
        assert_eq!(conflicting, codes[..4]);
        let universe = Universe::<u64>::new(codes).unwrap();
        assert_eq!(universe.conflicts, [0b00110, 0b01001, 0b01001, 0b00110, 0]);
        let context = Context::default();
        let mut budget = Budget::new(1, &context);
        assert_eq!(universe.conflicts_of(&0b00001, &mut budget).unwrap(), 0b00110);
    }

    #[test]
    fn all_intersections_are_found_and_only_maximal_sets_kept() {
        let context = Context::default();
        let mut budget = Budget::new(1000, &context);
        let sets = vec![0b0011u64, 0b0111, 0b1011, 0b1101, 0b0011];
        let kept = maximal(sets, &mut budget).unwrap();
        assert_eq!(kept, [0b0111, 0b1011, 0b1101]);
        let found = intersections(&kept, 0, &mut budget).unwrap();
        assert_eq!(found, [0b0111, 0b1011, 0b1101, 0b0011, 0b0101, 0b1001, 0b0001, 0]);
    }

    #[test]
    fn steps_end_at_their_limit() {
        const SETS: u64 = 1000;
        const MAX_STEPS: usize = (SETS * STEPS_PER_SET) as usize;
        let between = STEPS_BETWEEN_CHECKS as usize;
        let context = Context::default();
        let mut budget = Budget::new(SETS, &context);
        // As many as there may be, and then, looked at now and then, no more.
        assert!(budget.step(MAX_STEPS).is_ok());
        assert!(budget.step(between - 1).is_ok());
        assert!(matches!(budget.step(1), Err(Stop::Limit)));
        let mut budget = Budget::new(SETS, &context);
        let mut taken = 0;
        while budget.step(100).is_ok() {
            taken += 100;
        }
        assert!((MAX_STEPS..MAX_STEPS + between).contains(&taken), "{taken}");
    }

    #[test]
    fn so_many_sets_are_held_and_no_more() {
        let context = Context::default();
        let mut budget = Budget::new(3, &context);
        assert!(budget.hold(2).is_ok() && budget.left() == 1);
        budget.release(1);
        assert!(budget.hold(2).is_ok() && budget.left() == 0);
        assert!(matches!(budget.hold(1), Err(Stop::Limit)));
    }
}
