//! What a model knows of its subtrees, and what scoring does with it.
//!
//! A scorer meets the model's subtrees group by group: those that can have anything in
//! common with one node of the scored tree (for SST those of a production, for PT those
//! of a label). It tells a [`Sink`] each value C(v,ξ); what the sink makes of it is the
//! difference between a score, the shares of all nodes, an averaged perceptron's score
//! and a row of kernels.

use crate::ids::{
    FoldId, GroupId, Id, IdVec, MemberId, PackedOption, PatternId, Place, TreeId,
};
use crate::kernel::Number;
use crate::{Label, NodeId, Result, memory};

/// Where the weight of a subtree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// None for a leaf where these are apart.
    group: PackedOption<GroupId>,
    /// A leaf's label.
    member: MemberId,
}

impl Slot {
    /// The weight of a subtree that is a member of a group.
    pub(crate) fn of_member(group: GroupId, member: MemberId) -> Self {
        Self { group: group.into(), member }
    }

    /// The weight of a leaf, where these are apart.
    pub(crate) fn of_leaf(label: Label) -> Self {
        Self { group: PackedOption::NONE, member: MemberId(label.0) }
    }

    /// The weight of a subtree that is found by its id, of which there is one group.
    pub(crate) fn of_node(node: NodeId) -> Self {
        Self::of_member(ONE_GROUP, MemberId(node.0))
    }

    /// The subtree's group; none for a leaf that is apart.
    pub(crate) fn group(self) -> Option<GroupId> {
        self.group.get()
    }

    /// Its number within the group.
    pub(crate) fn member(self) -> Option<MemberId> {
        self.group().map(|_| self.member)
    }
}

/// The group of all subtrees, where they are found by their ids.
pub(crate) const ONE_GROUP: GroupId = GroupId(0);

/// A weight that is so much smaller than what was added last is 0.
const RESIDUE: f64 = 1e-12;

/// Adds, without what rounding leaves where the two cancel.
#[inline]
fn add_exactly(sum: &mut f64, change: f64) {
    *sum += change;
    // What became infinite did not cancel.
    if sum.abs() <= RESIDUE * change.abs() && change.is_finite() {
        *sum = 0.0;
    }
}

/// The weights f of distinct subtrees: `width` numbers for each.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    width: usize,
    /// By number within the group.
    groups: IdVec<GroupId, Vec<f64>>,
    /// By group: the sums over its subtrees.
    sums: Vec<f64>,
    /// How many weights are not 0. A group without any sums to 0, whatever rounding has
    /// left.
    nonzero: IdVec<GroupId, u32>,
    /// By label.
    leaves: Vec<f64>,
}

impl Weights {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            groups: IdVec::default(),
            sums: Vec::new(),
            nonzero: IdVec::default(),
            leaves: Vec::new(),
        }
    }

    /// Makes room for a subtree, its weight 0.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn enter(&mut self, slot: Slot) -> Result<()> {
        let end = (slot.member.index() + 1) * self.width;
        let Some(group) = slot.group.get() else {
            return memory::reach(&mut self.leaves, end, 0.0);
        };
        // `groups` grows last: if an error ends this, the next call finds it short and
        // repeats the rest.
        let n_groups = group.index() + 1;
        if self.groups.len() < n_groups {
            memory::reach(&mut self.sums, n_groups * self.width, 0.0)?;
            memory::reach(&mut self.nonzero, n_groups, 0)?;
            memory::reach_with(&mut self.groups, n_groups, Vec::new)?;
        }
        memory::reach(&mut self.groups[group], end, 0.0)
    }

    /// Adds `count · alphas`.
    pub(crate) fn add(&mut self, slot: Slot, count: f64, alphas: &[f64]) {
        let start = slot.member.index() * self.width;
        let width = self.width;
        let Some(group) = slot.group.get() else {
            for (f, alpha) in self.leaves[start..start + width].iter_mut().zip(alphas) {
                add_exactly(f, count * alpha);
            }
            return;
        };
        let weights = &mut self.groups[group][start..start + width];
        let sums = &mut self.sums[group.index() * width..][..width];
        for ((f, sum), alpha) in weights.iter_mut().zip(&mut *sums).zip(alphas) {
            // Each group keeps how many of its weights are not 0, as the sum alone
            // could not tell zero from what rounding left.
            let change = count * alpha;
            let was_zero = *f == 0.0;
            add_exactly(f, change);
            add_exactly(sum, change);
            match (was_zero, *f == 0.0) {
                (true, false) => self.nonzero[group] += 1,
                (false, true) => self.nonzero[group] -= 1,
                _ => {}
            }
        }
        // All weights of the group are 0, and the sum must be exactly that.
        if self.nonzero[group] == 0 {
            sums.fill(0.0);
        }
    }

    /// How many numbers a subtree has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The weights of a group, by number.
    pub(crate) fn group(&self, group: GroupId) -> &[f64] {
        &self.groups[group]
    }

    /// The weights of one subtree.
    pub(crate) fn get(&self, slot: Slot) -> &[f64] {
        let weights =
            slot.group.get().map_or(&self.leaves, |group| &self.groups[group]);
        &weights[slot.member.index() * self.width..][..self.width]
    }

    /// Sets the weights of one subtree and leaves sums alone: see [`Self::set_sums`].
    pub(crate) fn set(&mut self, slot: Slot, values: &[f64]) {
        let width = self.width;
        let weights = if let Some(group) = slot.group.get() {
            // The weights were 0 until now, so the ones that are not are new.
            let nonzero = values.iter().filter(|&&value| value != 0.0).count();
            self.nonzero[group] += nonzero as u32;
            &mut self.groups[group]
        } else {
            &mut self.leaves
        };
        weights[slot.member.index() * width..][..width].copy_from_slice(values);
    }

    /// The sums over groups: they depend on the order in which trees came, in the last
    /// bits, and so are kept with a stored model.
    pub(crate) fn sums(&self) -> &[f64] {
        &self.sums
    }

    pub(crate) fn set_sums(&mut self, sums: &[f64]) {
        self.sums.copy_from_slice(sums);
    }

    /// `scale · self - other`, number by number.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn combined(&self, scale: f64, other: &Self) -> Result<Self> {
        let difference = |a: &[f64], b: &[f64]| {
            memory::collect(a.iter().zip(b).map(|(a, b)| scale * a - b))
        };
        // Sums are combined as they are, not summed anew: they keep the order in which
        // trees came.
        let pairs = self.groups.iter().zip(&other.groups);
        let groups = memory::try_collect(pairs.map(|(a, b)| difference(a, b)))?;
        let count = |group: &Vec<f64>| group.iter().filter(|&&f| f != 0.0).count();
        Ok(Self {
            width: self.width,
            nonzero: memory::collect(groups.iter().map(|group| count(group) as u32))?
                .into(),
            groups: groups.into(),
            sums: difference(&self.sums, &other.sums)?,
            leaves: difference(&self.leaves, &other.leaves)?,
        })
    }

    pub(crate) fn nbytes(&self) -> usize {
        let bytes = |values: &Vec<f64>| values.capacity() * 8;
        self.groups.iter().map(bytes).sum::<usize>()
            + self.groups.capacity() * size_of::<Vec<f64>>()
            + bytes(&self.sums)
            + bytes(&self.leaves)
            + self.nonzero.capacity() * 4
    }
}

/// Which support trees have a subtree, and how often: what a voted perceptron asks for,
/// as it needs the kernel with each support tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occurrences {
    groups: IdVec<GroupId, Vec<Vec<(TreeId, f64)>>>,
    /// All subtrees of a group together.
    sums: IdVec<GroupId, Vec<(TreeId, f64)>>,
    leaves: Vec<Vec<(TreeId, f64)>>,
}

impl Occurrences {
    /// Makes room for a subtree of one more tree.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn reserve(&mut self, slot: Slot) -> Result<()> {
        let member = slot.member.index();
        let lists = if let Some(group) = slot.group.get() {
            // Room for the sum as well, so that `add` cannot fail.
            memory::reach_with(&mut self.groups, group.index() + 1, Vec::new)?;
            memory::reach_with(&mut self.sums, group.index() + 1, Vec::new)?;
            memory::reserve(&mut self.sums[group], 1)?;
            &mut self.groups[group]
        } else {
            &mut self.leaves
        };
        memory::reach_with(lists, member + 1, Vec::new)?;
        memory::reserve(&mut lists[member], 1)
    }

    /// Enters that a tree has a subtree, after [`reserve`](Self::reserve); trees come in
    /// ascending order.
    pub(crate) fn add(&mut self, slot: Slot, tree: TreeId, count: f64) {
        let lists = if let Some(group) = slot.group.get() {
            // Trees ascend, so an entry of this tree would be the last.
            match self.sums[group].last_mut() {
                Some((last, sum)) if *last == tree => *sum += count,
                _ => self.sums[group].push((tree, count)), // has room
            }
            &mut self.groups[group]
        } else {
            &mut self.leaves
        };
        lists[slot.member.index()].push((tree, count)); // has room
    }

    pub(crate) fn nbytes(&self) -> usize {
        let bytes = |list: &Vec<(TreeId, f64)>| {
            list.capacity() * size_of::<(TreeId, f64)>() + 24
        };
        let groups = self.groups.iter().flatten().map(bytes).sum::<usize>();
        groups + self.sums.iter().chain(&self.leaves).map(bytes).sum::<usize>()
    }
}

/// What a walk tells its values to.
pub(crate) trait Sink<N: Number = f64> {
    /// What it calls a subtree.
    type Id: Id;

    /// A group's subtrees, one by one.
    type View<'a>: View<N, Id = Self::Id>
    where
        Self: 'a;

    /// From here on values are those of the node at this place, standing there so often.
    fn node(&mut self, place: Place, count: f64);

    /// C is `value` for all subtrees of a group.
    fn group(&mut self, group: GroupId, value: N);

    /// C is `value` for the leaf with this label.
    fn leaf(&mut self, _label: Label, _value: N) {}

    /// C is larger by `value` for all subtrees of a pattern's list.
    fn pattern(&mut self, _pattern: PatternId, _value: N) {}

    /// Until none is told, what is told of a subtree counts for the roots above it as well,
    /// those of a list that this fold is of.
    fn fold(&mut self, _fold: Option<FoldId>) {}

    /// C is larger by `value` for all roots of a fold.
    fn folded(&mut self, _fold: FoldId, _value: N) {}

    /// Looks into a group.
    fn view(&mut self, group: GroupId) -> Self::View<'_>;
}

/// A group's subtrees for one node of the query tree.
pub(crate) trait View<N: Number = f64> {
    /// What a subtree is called.
    type Id: Id;

    /// C with this subtree is larger by `value`.
    fn add(&mut self, subtree: Self::Id, value: N);

    /// The same for some, one by one.
    #[inline]
    fn add_all(&mut self, values: impl Iterator<Item = (Self::Id, N)>)
    where
        Self: Sized,
    {
        values.for_each(|(subtree, value)| self.add(subtree, value));
    }

    /// That was all.
    fn close(self);
}

/// The numbers of subtrees that sinks sum up: weights, or what is made of them.
pub(crate) trait Numbers {
    /// How many each subtree has.
    fn width(&self) -> usize;

    /// Those of a group, two of which [`one`](Self::one) makes into a number; while a fold
    /// is told of, those that count for its roots as well.
    fn group(&self, group: GroupId, fold: Option<FoldId>) -> [&[f64]; 2];

    /// A number of a subtree, from the two of [`group`](Self::group).
    #[inline]
    fn one(&self, last: f64, _late: f64) -> f64 {
        last
    }

    fn add_group(&self, group: GroupId, value: f64, sums: &mut [f64]);
    fn add_leaf(&self, label: Label, value: f64, sums: &mut [f64]);

    fn add_pattern(
        &self,
        _pattern: PatternId,
        _fold: Option<FoldId>,
        _value: f64,
        _sums: &mut [f64],
    ) {
    }

    fn add_folded(&self, _fold: FoldId, _value: f64, _sums: &mut [f64]) {}
}

/// `sums += value * own`, as far as there are sums.
#[inline]
pub(crate) fn add_scaled(value: f64, numbers: &[f64], sums: &mut [f64]) {
    for (sum, f) in sums.iter_mut().zip(numbers) {
        *sum += value * f;
    }
}

impl Numbers for Weights {
    fn width(&self) -> usize {
        self.width
    }

    #[inline]
    fn group(&self, group: GroupId, _fold: Option<FoldId>) -> [&[f64]; 2] {
        [&self.groups[group]; 2]
    }

    #[inline]
    fn add_group(&self, group: GroupId, value: f64, sums: &mut [f64]) {
        add_scaled(value, &self.sums[group.index() * self.width..], sums);
    }

    #[inline]
    fn add_leaf(&self, label: Label, value: f64, sums: &mut [f64]) {
        // A label may be known of inner nodes only.
        let weights = self.leaves.get(label.index() * self.width..).unwrap_or_default();
        add_scaled(value, weights, sums);
    }
}

/// The sizes of weights: a score by them bounds the rounding error of that by weights.
pub(crate) struct Sizes<'m>(pub(crate) &'m Weights);

impl Numbers for Sizes<'_> {
    fn width(&self) -> usize {
        self.0.width
    }

    fn group(&self, group: GroupId, _fold: Option<FoldId>) -> [&[f64]; 2] {
        [&self.0.groups[group]; 2]
    }

    fn one(&self, last: f64, _late: f64) -> f64 {
        last.abs()
    }

    fn add_group(&self, group: GroupId, value: f64, sums: &mut [f64]) {
        // Sums of sizes are not kept, so they are added up here.
        for weights in self.0.groups[group].chunks(self.0.width) {
            weights.iter().zip(&mut *sums).for_each(|(f, sum)| *sum += value * f.abs());
        }
    }

    fn add_leaf(&self, label: Label, value: f64, sums: &mut [f64]) {
        let leaves = &self.0.leaves;
        let weights = leaves.get(label.index() * self.0.width..).unwrap_or_default();
        weights.iter().zip(sums).for_each(|(f, sum)| *sum += (value * f).abs());
    }
}

/// `scale · last - age_weighted`: with `age_weighted` the weights times the examples
/// before they came, and `scale` all examples, every weight times the examples that it
/// was part of.
pub(crate) struct Averaged<'m> {
    pub(crate) last: &'m Weights,
    pub(crate) age_weighted: &'m Weights,
    pub(crate) scale: f64,
}

impl Averaged<'_> {
    fn add(&self, value: f64, last: &[f64], age_weighted: &[f64], sums: &mut [f64]) {
        for ((sum, last), age_weighted) in sums.iter_mut().zip(last).zip(age_weighted) {
            *sum += value * (self.scale * last - age_weighted);
        }
    }
}

impl Numbers for Averaged<'_> {
    fn width(&self) -> usize {
        self.last.width
    }

    #[inline]
    fn group(&self, group: GroupId, _fold: Option<FoldId>) -> [&[f64]; 2] {
        [self.last, self.age_weighted].map(|weights| weights.group(group))
    }

    #[inline]
    fn one(&self, last: f64, age_weighted: f64) -> f64 {
        self.scale * last - age_weighted
    }

    fn add_group(&self, group: GroupId, value: f64, sums: &mut [f64]) {
        let start = group.index() * self.last.width;
        self.add(
            value,
            &self.last.sums[start..],
            &self.age_weighted.sums[start..],
            sums,
        );
    }

    fn add_leaf(&self, label: Label, value: f64, sums: &mut [f64]) {
        let start = label.index() * self.last.width;
        let [last, age_weighted] = [self.last, self.age_weighted]
            .map(|weights| weights.leaves.get(start..).unwrap_or_default());
        self.add(value, last, age_weighted, sums);
    }
}

/// The score, where a model has one output: the fast path.
pub(crate) struct One<'m, N> {
    numbers: &'m N,
    fold: Option<FoldId>,
    count: f64,
    pub(crate) sum: f64,
}

impl<'m, N: Numbers> One<'m, N> {
    pub(crate) fn new(numbers: &'m N) -> Self {
        Self { numbers, fold: None, count: 0.0, sum: 0.0 }
    }

    /// Adds `count` times what is told of one number.
    #[inline]
    fn add(&mut self, tell: impl FnOnce(&N, &mut [f64])) {
        let mut total = [0.0];
        tell(self.numbers, &mut total);
        self.sum += self.count * total[0];
    }
}

pub(crate) struct OneView<'a, N> {
    numbers: &'a N,
    group: [&'a [f64]; 2],
    node_sum: f64,
    count: f64,
    sum: &'a mut f64,
}

impl<N: Numbers> Sink for One<'_, N> {
    type Id = MemberId;
    type View<'a>
        = OneView<'a, N>
    where
        Self: 'a;

    #[inline]
    fn node(&mut self, _place: Place, count: f64) {
        self.count = count;
    }

    #[inline]
    fn group(&mut self, group: GroupId, value: f64) {
        self.add(|numbers, total| numbers.add_group(group, value, total));
    }

    #[inline]
    fn leaf(&mut self, label: Label, value: f64) {
        self.add(|numbers, total| numbers.add_leaf(label, value, total));
    }

    #[inline]
    fn pattern(&mut self, pattern: PatternId, value: f64) {
        let fold = self.fold;
        self.add(|numbers, total| numbers.add_pattern(pattern, fold, value, total));
    }

    fn fold(&mut self, fold: Option<FoldId>) {
        self.fold = fold;
    }

    fn folded(&mut self, fold: FoldId, value: f64) {
        self.add(|numbers, total| numbers.add_folded(fold, value, total));
    }

    #[inline]
    fn view(&mut self, group: GroupId) -> OneView<'_, N> {
        // Both of them once per node, not per subtree.
        let (numbers, count, sum) = (self.numbers, self.count, &mut self.sum);
        OneView {
            numbers,
            group: numbers.group(group, self.fold),
            node_sum: 0.0,
            count,
            sum,
        }
    }
}

impl<N: Numbers> View for OneView<'_, N> {
    type Id = MemberId;

    #[inline]
    fn add(&mut self, member: MemberId, value: f64) {
        let [last, age_weighted] = self.group.map(|weights| weights[member.index()]);
        self.node_sum += value * self.numbers.one(last, age_weighted);
    }

    /// Four sums take turns, as each addition would wait for the one before.
    #[inline]
    fn add_all(&mut self, values: impl Iterator<Item = (MemberId, f64)>) {
        // Each sum is added to in every fourth step; the array turns instead of an
        // index.
        let (numbers, group) = (self.numbers, self.group);
        let sums = values.fold([0.0; 4], |[a, b, c, d], (member, value)| {
            let [last, age_weighted] = group.map(|weights| weights[member.index()]);
            [b, c, d, a + value * numbers.one(last, age_weighted)]
        });
        self.node_sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    #[inline]
    fn close(self) {
        *self.sum += self.count * self.node_sum;
    }
}

/// Scores, where a model has several outputs: every value is met once for all of them.
/// By place, the share of each node in them.
pub(crate) struct Several<'m, N> {
    numbers: &'m N,
    /// Whether nodes have sums of their own.
    is_by_place: bool,
    place: Place,
    fold: Option<FoldId>,
    count: f64,
    sums: &'m mut [f64],
}

impl<'m, N: Numbers> Several<'m, N> {
    pub(crate) fn new(numbers: &'m N, sums: &'m mut [f64]) -> Self {
        Self {
            numbers,
            is_by_place: false,
            place: Place(0),
            fold: None,
            count: 0.0,
            sums,
        }
    }

    /// `width` sums by place, of one node each wherever it stands.
    pub(crate) fn sums_by_place(numbers: &'m N, sums: &'m mut [f64]) -> Self {
        Self { is_by_place: true, count: 1.0, ..Self::new(numbers, sums) }
    }

    fn sums(&mut self) -> &mut [f64] {
        let width = self.numbers.width();
        &mut self.sums[self.place.index() * width..][..width]
    }
}

pub(crate) struct SeveralView<'a, N> {
    numbers: &'a N,
    group: [&'a [f64]; 2],
    count: f64,
    sums: &'a mut [f64],
}

impl<N: Numbers> Sink for Several<'_, N> {
    type Id = MemberId;
    type View<'a>
        = SeveralView<'a, N>
    where
        Self: 'a;

    fn node(&mut self, place: Place, count: f64) {
        if self.is_by_place {
            self.place = place;
        } else {
            self.count = count;
        }
    }

    fn group(&mut self, group: GroupId, value: f64) {
        let (numbers, count) = (self.numbers, self.count);
        numbers.add_group(group, count * value, self.sums());
    }

    fn leaf(&mut self, label: Label, value: f64) {
        let (numbers, count) = (self.numbers, self.count);
        numbers.add_leaf(label, count * value, self.sums());
    }

    fn pattern(&mut self, pattern: PatternId, value: f64) {
        let (numbers, fold, count) = (self.numbers, self.fold, self.count);
        numbers.add_pattern(pattern, fold, count * value, self.sums());
    }

    fn fold(&mut self, fold: Option<FoldId>) {
        self.fold = fold;
    }

    fn folded(&mut self, fold: FoldId, value: f64) {
        let (numbers, count) = (self.numbers, self.count);
        numbers.add_folded(fold, count * value, self.sums());
    }

    fn view(&mut self, group: GroupId) -> SeveralView<'_, N> {
        let (numbers, count) = (self.numbers, self.count);
        let group = numbers.group(group, self.fold);
        SeveralView { numbers, group, count, sums: self.sums() }
    }
}

impl<N: Numbers> View for SeveralView<'_, N> {
    type Id = MemberId;

    #[inline]
    fn add(&mut self, member: MemberId, value: f64) {
        let width = self.sums.len();
        let [last, age_weighted] =
            self.group.map(|weights| &weights[member.index() * width..][..width]);
        let value = self.count * value;
        for ((sum, &last), &age_weighted) in
            self.sums.iter_mut().zip(last).zip(age_weighted)
        {
            *sum += value * self.numbers.one(last, age_weighted);
        }
    }

    /// Some at a time: the loop over outputs then is one of known length.
    #[inline]
    fn add_all(&mut self, values: impl Iterator<Item = (MemberId, f64)>) {
        // Enough for the loop to pay; the array is on the stack.
        let mut some = [(MemberId::default(), 0.0); 64];
        let mut n = 0;
        values.for_each(|value| {
            some[n] = value;
            n += 1;
            if n == some.len() {
                self.add_some(&some);
                n = 0;
            }
        });
        self.add_some(&some[..n]);
    }

    fn close(self) {}
}

impl<N: Numbers> SeveralView<'_, N> {
    fn add_some(&mut self, some: &[(MemberId, f64)]) {
        // Each width is compiled for itself; models with more outputs take the general
        // loop.
        match self.sums.len() {
            2 => self.add_fixed::<2>(some),
            3 => self.add_fixed::<3>(some),
            4 => self.add_fixed::<4>(some),
            5 => self.add_fixed::<5>(some),
            6 => self.add_fixed::<6>(some),
            7 => self.add_fixed::<7>(some),
            8 => self.add_fixed::<8>(some),
            _ => some.iter().for_each(|&(member, value)| self.add(member, value)),
        }
    }

    /// For a width that the compiler knows: so many outputs in registers.
    fn add_fixed<const W: usize>(&mut self, some: &[(MemberId, f64)]) {
        // A subtree has exactly W numbers.
        let [last, age_weighted] = self.group.map(|weights| weights.as_chunks::<W>().0);
        let mut totals = [0.0; W];
        for &(member, value) in some {
            let member = member.index();
            let both = last[member].iter().zip(&age_weighted[member]);
            for (total, (&last, &age_weighted)) in totals.iter_mut().zip(both) {
                *total += value * self.numbers.one(last, age_weighted);
            }
        }
        add_scaled(self.count, &totals, self.sums);
    }
}

/// The kernel with each support tree: a whole row at once.
pub(crate) struct Row<'m> {
    occurrences: &'m Occurrences,
    count: f64,
    out: &'m mut [f64],
}

impl<'m> Row<'m> {
    pub(crate) fn new(occurrences: &'m Occurrences, out: &'m mut [f64]) -> Self {
        Self { occurrences, count: 0.0, out }
    }

    fn pass_on(&mut self, list: Option<&Vec<(TreeId, f64)>>, value: f64) {
        // What is not in the model stands in no support tree.
        for &(tree, times) in list.into_iter().flatten() {
            self.out[tree.index()] += value * times;
        }
    }
}

pub(crate) struct RowView<'a> {
    lists: &'a [Vec<(TreeId, f64)>],
    count: f64,
    row: &'a mut [f64],
}

impl Sink for Row<'_> {
    type Id = MemberId;
    type View<'a>
        = RowView<'a>
    where
        Self: 'a;

    fn node(&mut self, _place: Place, count: f64) {
        self.count = count;
    }

    fn group(&mut self, group: GroupId, value: f64) {
        self.pass_on(self.occurrences.sums.find(group), self.count * value);
    }

    fn leaf(&mut self, label: Label, value: f64) {
        self.pass_on(self.occurrences.leaves.get(label.index()), self.count * value);
    }

    fn view(&mut self, group: GroupId) -> RowView<'_> {
        let lists = self.occurrences.groups.find(group);
        let lists = lists.map(Vec::as_slice).unwrap_or_default();
        RowView { lists, count: self.count, row: self.out }
    }
}

impl View for RowView<'_> {
    type Id = MemberId;

    #[inline]
    fn add(&mut self, member: MemberId, value: f64) {
        let value = self.count * value;
        for &(tree, times) in self.lists.get(member.index()).into_iter().flatten() {
            self.row[tree.index()] += value * times;
        }
    }

    fn close(self) {}
}
