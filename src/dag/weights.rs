//! What a model knows of its subtrees, and what scoring does with it.
//!
//! A scorer meets the model's subtrees group by group: those that can have anything in
//! common with one node of the scored tree (for SST those of a production, for PT those
//! of a label). It tells a [`Sink`] each value C(v,ξ); what the sink makes of it is the
//! difference between a score, the shares of all nodes, an averaged perceptron's score
//! and a row of kernels.

/// Where the weight of a subtree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Its group; [`LEAF`] for a leaf where these are apart.
    pub(crate) group: u32,
    /// Its number within the group; a leaf's label.
    pub(crate) number: u32,
}

/// The group of leaves.
pub(crate) const LEAF: u32 = u32::MAX;

/// The weights f of distinct subtrees: `width` numbers for each.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    width: usize,
    /// By group, by number.
    groups: Vec<Vec<f64>>,
    /// By group: the sums over its subtrees.
    sums: Vec<f64>,
    /// By group: how many weights are not 0. A group without any sums to 0, whatever
    /// rounding has left.
    nonzero: Vec<u32>,
    /// By label.
    leaves: Vec<f64>,
}

impl Weights {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            groups: Vec::new(),
            sums: Vec::new(),
            nonzero: Vec::new(),
            leaves: Vec::new(),
        }
    }

    /// Makes room for a subtree, its weight 0.
    pub(crate) fn enter(&mut self, slot: Slot) {
        let end = (slot.number as usize + 1) * self.width;
        if slot.group == LEAF {
            if self.leaves.len() < end {
                self.leaves.resize(end, 0.0);
            }
            return;
        }
        let group = slot.group as usize;
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Vec::new);
            self.sums.resize((group + 1) * self.width, 0.0);
            self.nonzero.resize(group + 1, 0);
        }
        let group = &mut self.groups[group];
        if group.len() < end {
            group.resize(end, 0.0);
        }
    }

    /// Adds `count · alphas`.
    pub(crate) fn add(&mut self, slot: Slot, count: f64, alphas: &[f64]) {
        let start = slot.number as usize * self.width;
        let width = self.width;
        if slot.group == LEAF {
            for (f, alpha) in self.leaves[start..start + width].iter_mut().zip(alphas) {
                *f += count * alpha;
            }
            return;
        }
        let group = slot.group as usize;
        let own = &mut self.groups[group][start..start + width];
        let sums = &mut self.sums[group * width..(group + 1) * width];
        for ((f, sum), alpha) in own.iter_mut().zip(&mut *sums).zip(alphas) {
            let change = count * alpha;
            let was_zero = *f == 0.0;
            *f += change;
            *sum += change;
            match (was_zero, *f == 0.0) {
                (true, false) => self.nonzero[group] += 1,
                (false, true) => self.nonzero[group] -= 1,
                _ => {}
            }
        }
        if self.nonzero[group] == 0 {
            sums.fill(0.0);
        }
    }

    /// How many numbers a subtree has.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The weights of a group, by number.
    pub(crate) fn group(&self, group: u32) -> &[f64] {
        &self.groups[group as usize]
    }

    /// Those of leaves, by label.
    pub(crate) fn leaves(&self) -> &[f64] {
        &self.leaves
    }

    /// Whether the label is one of leaves, and not of inner nodes only.
    pub(crate) fn has_leaf(&self, label: u32) -> bool {
        (label as usize + 1) * self.width <= self.leaves.len()
    }

    /// The weights of one subtree.
    pub(crate) fn get(&self, slot: Slot) -> &[f64] {
        let own = if slot.group == LEAF {
            &self.leaves
        } else {
            &self.groups[slot.group as usize]
        };
        &own[slot.number as usize * self.width..][..self.width]
    }

    /// Sets the weights of one subtree and leaves sums alone: see [`Self::set_sums`].
    pub(crate) fn set(&mut self, slot: Slot, values: &[f64]) {
        let width = self.width;
        let own = if slot.group == LEAF {
            &mut self.leaves
        } else {
            let nonzero = values.iter().filter(|&&value| value != 0.0).count();
            self.nonzero[slot.group as usize] += nonzero as u32;
            &mut self.groups[slot.group as usize]
        };
        own[slot.number as usize * width..][..width].copy_from_slice(values);
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
    pub(crate) fn combined(&self, scale: f64, other: &Self) -> Self {
        let of = |a: &[f64], b: &[f64]| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| scale * a - b).collect()
        };
        let pairs = self.groups.iter().zip(&other.groups);
        let groups: Vec<Vec<f64>> = pairs.map(|(a, b)| of(a, b)).collect();
        let count = |group: &Vec<f64>| group.iter().filter(|&&f| f != 0.0).count();
        Self {
            width: self.width,
            nonzero: groups.iter().map(|group| count(group) as u32).collect(),
            groups,
            sums: of(&self.sums, &other.sums),
            leaves: of(&self.leaves, &other.leaves),
        }
    }

    pub(crate) fn nbytes(&self) -> usize {
        let of = |values: &Vec<f64>| values.capacity() * 8;
        self.groups.iter().map(of).sum::<usize>()
            + self.groups.capacity() * size_of::<Vec<f64>>()
            + of(&self.sums)
            + of(&self.leaves)
            + self.nonzero.capacity() * 4
    }
}

/// Which support trees have a subtree, and how often: what a voted perceptron asks for,
/// as it needs the kernel with each support tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Occurrences {
    groups: Vec<Vec<Vec<(u32, f64)>>>,
    /// By group: all its subtrees together.
    sums: Vec<Vec<(u32, f64)>>,
    leaves: Vec<Vec<(u32, f64)>>,
}

impl Occurrences {
    /// Enters that a tree has a subtree; trees come in ascending order.
    pub(crate) fn add(&mut self, slot: Slot, tree: u32, count: f64) {
        let number = slot.number as usize;
        let own = if slot.group == LEAF {
            &mut self.leaves
        } else {
            let group = slot.group as usize;
            if self.groups.len() <= group {
                self.groups.resize_with(group + 1, Vec::new);
                self.sums.resize_with(group + 1, Vec::new);
            }
            match self.sums[group].last_mut() {
                Some((last, sum)) if *last == tree => *sum += count,
                _ => self.sums[group].push((tree, count)),
            }
            &mut self.groups[group]
        };
        if own.len() <= number {
            own.resize_with(number + 1, Vec::new);
        }
        own[number].push((tree, count));
    }

    pub(crate) fn nbytes(&self) -> usize {
        let of =
            |list: &Vec<(u32, f64)>| list.capacity() * size_of::<(u32, f64)>() + 24;
        let groups = self.groups.iter().flatten().map(of).sum::<usize>();
        groups + self.sums.iter().chain(&self.leaves).map(of).sum::<usize>()
    }
}

/// What scorers tell their values to.
pub(super) trait Sink {
    /// A group's subtrees, one by one.
    type View<'a>: View
    where
        Self: 'a;

    /// From here on values are those of the node at this place, standing there so often.
    fn node(&mut self, place: usize, count: f64);

    /// C is `value` for all subtrees of a group.
    fn group(&mut self, group: u32, value: f64);

    /// C is `value` for the leaf with this label.
    fn leaf(&mut self, label: u32, value: f64);

    /// Looks into a group.
    fn view(&mut self, group: u32) -> Self::View<'_>;
}

/// A group's subtrees for one node of the scored tree.
pub(super) trait View {
    /// C with this subtree is larger by `value`.
    fn add(&mut self, number: u32, value: f64);

    /// That was all.
    fn close(self);
}

/// The score, where a model has one output: the fast path.
pub(super) struct One<'m> {
    weights: &'m Weights,
    count: f64,
    pub(super) sum: f64,
}

impl<'m> One<'m> {
    pub(super) fn new(weights: &'m Weights) -> Self {
        Self { weights, count: 0.0, sum: 0.0 }
    }
}

pub(super) struct OneView<'a> {
    weights: &'a [f64],
    own: f64,
    count: f64,
    sum: &'a mut f64,
}

impl Sink for One<'_> {
    type View<'a>
        = OneView<'a>
    where
        Self: 'a;

    #[inline]
    fn node(&mut self, _place: usize, count: f64) {
        self.count = count;
    }

    #[inline]
    fn group(&mut self, group: u32, value: f64) {
        self.sum += self.count * (value * self.weights.sums[group as usize]);
    }

    #[inline]
    fn leaf(&mut self, label: u32, value: f64) {
        // A label may be known of inner nodes only.
        let f = self.weights.leaves.get(label as usize).copied().unwrap_or(0.0);
        self.sum += self.count * (value * f);
    }

    #[inline]
    fn view(&mut self, group: u32) -> OneView<'_> {
        let weights = &self.weights.groups[group as usize];
        OneView { weights, own: 0.0, count: self.count, sum: &mut self.sum }
    }
}

impl View for OneView<'_> {
    #[inline]
    fn add(&mut self, number: u32, value: f64) {
        self.own += value * self.weights[number as usize];
    }

    #[inline]
    fn close(self) {
        *self.sum += self.count * self.own;
    }
}

/// What the numbers of a subtree are, for sinks that take several.
pub(super) trait Numbers {
    fn width(&self) -> usize;
    /// Adds `value` times the numbers of a group's subtree to `sums`.
    fn add(&self, group: u32, number: u32, value: f64, sums: &mut [f64]);
    fn add_group(&self, group: u32, value: f64, sums: &mut [f64]);
    fn add_leaf(&self, label: u32, value: f64, sums: &mut [f64]);
}

#[inline]
fn add_scaled(value: f64, own: &[f64], sums: &mut [f64]) {
    for (sum, f) in sums.iter_mut().zip(own) {
        *sum += value * f;
    }
}

impl Numbers for Weights {
    fn width(&self) -> usize {
        self.width
    }

    #[inline]
    fn add(&self, group: u32, number: u32, value: f64, sums: &mut [f64]) {
        let own = &self.groups[group as usize][number as usize * self.width..];
        add_scaled(value, &own[..self.width], sums);
    }

    fn add_group(&self, group: u32, value: f64, sums: &mut [f64]) {
        add_scaled(value, &self.sums[group as usize * self.width..], sums);
    }

    fn add_leaf(&self, label: u32, value: f64, sums: &mut [f64]) {
        let own = self.leaves.get(label as usize * self.width..).unwrap_or_default();
        add_scaled(value, own, sums);
    }
}

/// `scale · last - late`: with `late` the weights times the examples before they came,
/// and `scale` all examples, every weight times the examples that it was part of.
pub(super) struct Averaged<'m> {
    pub(super) last: &'m Weights,
    pub(super) late: &'m Weights,
    pub(super) scale: f64,
}

impl Averaged<'_> {
    #[inline]
    fn scaled(&self, value: f64, last: &[f64], late: &[f64], sums: &mut [f64]) {
        for ((sum, last), late) in sums.iter_mut().zip(last).zip(late) {
            *sum += value * (self.scale * last - late);
        }
    }
}

impl Numbers for Averaged<'_> {
    fn width(&self) -> usize {
        self.last.width
    }

    #[inline]
    fn add(&self, group: u32, number: u32, value: f64, sums: &mut [f64]) {
        let start = number as usize * self.last.width;
        let [last, late] =
            [self.last, self.late].map(|weights| &weights.groups[group as usize]);
        self.scaled(value, &last[start..], &late[start..], sums);
    }

    fn add_group(&self, group: u32, value: f64, sums: &mut [f64]) {
        let start = group as usize * self.last.width;
        self.scaled(value, &self.last.sums[start..], &self.late.sums[start..], sums);
    }

    fn add_leaf(&self, label: u32, value: f64, sums: &mut [f64]) {
        let start = label as usize * self.last.width;
        let [last, late] = [self.last, self.late]
            .map(|weights| weights.leaves.get(start..).unwrap_or_default());
        self.scaled(value, last, late, sums);
    }
}

/// Scores, where a model has several outputs: every value is met once for all of them.
pub(super) struct Several<'m, N> {
    numbers: &'m N,
    count: f64,
    sums: &'m mut [f64],
}

impl<'m, N: Numbers> Several<'m, N> {
    pub(super) fn new(numbers: &'m N, sums: &'m mut [f64]) -> Self {
        Self { numbers, count: 0.0, sums }
    }
}

pub(super) struct SeveralView<'a, N> {
    numbers: &'a N,
    group: u32,
    count: f64,
    sums: &'a mut [f64],
}

impl<N: Numbers> Sink for Several<'_, N> {
    type View<'a>
        = SeveralView<'a, N>
    where
        Self: 'a;

    fn node(&mut self, _place: usize, count: f64) {
        self.count = count;
    }

    fn group(&mut self, group: u32, value: f64) {
        self.numbers.add_group(group, self.count * value, self.sums);
    }

    fn leaf(&mut self, label: u32, value: f64) {
        self.numbers.add_leaf(label, self.count * value, self.sums);
    }

    fn view(&mut self, group: u32) -> SeveralView<'_, N> {
        let Self { numbers, count, sums } = self;
        SeveralView { numbers, group, count: *count, sums }
    }
}

impl<N: Numbers> View for SeveralView<'_, N> {
    #[inline]
    fn add(&mut self, number: u32, value: f64) {
        let sums = &mut self.sums[..self.numbers.width()];
        self.numbers.add(self.group, number, self.count * value, sums);
    }

    fn close(self) {}
}

/// The share of each node in the score, place by place.
pub(super) struct Shares<'m, N> {
    numbers: &'m N,
    place: usize,
    /// `width` numbers by place.
    out: &'m mut [f64],
}

impl<'m, N: Numbers> Shares<'m, N> {
    pub(super) fn new(numbers: &'m N, out: &'m mut [f64]) -> Self {
        Self { numbers, place: 0, out }
    }

    fn own(&mut self) -> (&N, &mut [f64]) {
        let width = self.numbers.width();
        (self.numbers, &mut self.out[self.place * width..][..width])
    }
}

impl<N: Numbers> Sink for Shares<'_, N> {
    type View<'a>
        = SeveralView<'a, N>
    where
        Self: 'a;

    fn node(&mut self, place: usize, _count: f64) {
        self.place = place;
    }

    fn group(&mut self, group: u32, value: f64) {
        let (numbers, own) = self.own();
        numbers.add_group(group, value, own);
    }

    fn leaf(&mut self, label: u32, value: f64) {
        let (numbers, own) = self.own();
        numbers.add_leaf(label, value, own);
    }

    fn view(&mut self, group: u32) -> SeveralView<'_, N> {
        let (numbers, sums) = self.own();
        SeveralView { numbers, group, count: 1.0, sums }
    }
}

/// The kernel with each support tree: a whole row at once.
pub(super) struct Row<'m> {
    occurrences: &'m Occurrences,
    count: f64,
    out: &'m mut [f64],
}

impl<'m> Row<'m> {
    pub(super) fn new(occurrences: &'m Occurrences, out: &'m mut [f64]) -> Self {
        Self { occurrences, count: 0.0, out }
    }

    fn pass_on(&mut self, list: Option<&Vec<(u32, f64)>>, value: f64) {
        for &(tree, times) in list.into_iter().flatten() {
            self.out[tree as usize] += value * times;
        }
    }
}

pub(super) struct RowView<'a> {
    lists: &'a [Vec<(u32, f64)>],
    count: f64,
    row: &'a mut [f64],
}

impl Sink for Row<'_> {
    type View<'a>
        = RowView<'a>
    where
        Self: 'a;

    fn node(&mut self, _place: usize, count: f64) {
        self.count = count;
    }

    fn group(&mut self, group: u32, value: f64) {
        self.pass_on(self.occurrences.sums.get(group as usize), self.count * value);
    }

    fn leaf(&mut self, label: u32, value: f64) {
        self.pass_on(self.occurrences.leaves.get(label as usize), self.count * value);
    }

    fn view(&mut self, group: u32) -> RowView<'_> {
        let lists = self.occurrences.groups.get(group as usize);
        let lists = lists.map(Vec::as_slice).unwrap_or_default();
        RowView { lists, count: self.count, row: self.out }
    }
}

impl View for RowView<'_> {
    #[inline]
    fn add(&mut self, number: u32, value: f64) {
        let value = self.count * value;
        for &(tree, times) in self.lists.get(number as usize).into_iter().flatten() {
            self.row[tree as usize] += value * times;
        }
    }

    fn close(self) {}
}
