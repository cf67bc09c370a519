//! The recursion, without recursion: from a plan's pairs to vectors of trees.
//!
//! Two kinds of vectors build on each other:
//!
//! ```text
//! V(pair)  = left ◇ right                       operands: labels, pairs, or both
//! A(node)  = w V(pair of node) + Σ_children A(child)      so T = A(root)
//! ```
//!
//! A is what makes a subtree that was met before cheap: its sum over all fragments is
//! one vector, not one per node. Of the children (or operands) the one with the most
//! compositions below it comes first, so that at most 2 log2(n) vectors wait at a time,
//! however deep or wide a tree is: a frame that waits has done its heavy part, and
//! what is still to come is less than half of it.
//!
//! All sums are in an order that follows from the tree alone. So bits do not depend on
//! what is found in the cache, on threads, or on which trees were encoded together.

use std::sync::Arc;

use rustfft::num_complex::Complex;

use super::cache::{Cache, Key};
use super::composition::{Composer, Composition, Fft, Form, Real, Side, convolution};
use super::finish::ScaledVector;
use super::plan::{NONE, Operand, Plan, label_of};
use super::scale::{Scale, Sum, Weighted, add, scale};
use crate::kernel::{Rule, Sketch};
use crate::{Context, NodeId, Nodes, Result, memory};

impl Sketch {
    /// Vectors that a pair's value consists of: the value, and for partial trees what
    /// subsequences that go on need, by their length where that is limited.
    pub(super) fn parts(&self) -> usize {
        match (self.rule, self.longest) {
            (Rule::Partial, Some(longest)) => longest,
            (Rule::Partial, None) => 2,
            _ => 1,
        }
    }
}

/// What all workers share.
pub(super) struct Job<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) plan: &'a Plan,
    pub(super) composer: &'a Composer,
    pub(super) weights: Sketch,
}

/// Numbers from which on each single step takes long.
pub(super) const LONG_VECTOR: usize = 1 << 16;

enum Frame<T> {
    /// A pair to be composed: what is held of its operands, and how many are ready.
    Pair { pair: u32, held: [PinnedOperand; 2], ready: u8 },
    /// A node's sum: its heaviest child, how many children are added, and the sum so
    /// far.
    Sum { node: NodeId, heavy: u32, next: u32, sum: Option<Sum<T>> },
}

/// An operand's vector, pinned.
#[derive(Debug, Clone, Copy)]
enum PinnedOperand {
    /// No operand of this side, or one without a pair.
    Nothing,
    Value(u32),
    Spectrum(u32),
}

struct Transform<T> {
    fft: Arc<Fft<T>>,
    scratch: convolution::Scratch<T>,
    left: Vec<Complex<T>>,
}

pub(super) struct Worker<'a, T> {
    job: &'a Job<'a>,
    values: Cache<T>,
    /// Sums and labels: one vector each, where values may have several.
    singles: Cache<T>,
    spectra: Cache<Complex<T>>,
    stack: Vec<Frame<T>>,
    /// How often each is still asked for; at 0 its vector goes.
    pair_uses: Vec<u32>,
    sum_uses: Vec<u32>,
    label_uses: Vec<u32>,
    /// Scratch: a left operand that is a sum.
    operand: Vec<T>,
    /// Scratch: a composition that is added to others.
    composed: Vec<T>,
    /// For convolutions.
    fft: Option<Transform<T>>,
    pub(super) n_compositions: u64,
}

impl<'a, T: Real> Worker<'a, T> {
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn new(job: &'a Job<'a>, nbytes: usize) -> Result<Self> {
        let d = job.composer.d;
        let mut fft = None;
        if job.composer.composition == Composition::Convolution {
            let plan = job.composer.fft::<T>()?;
            let (scratch, left) = (plan.scratch()?, plan.spectrum()?);
            fft = Some(Transform { scratch, left, fft: plan });
        }
        // Each cache may take the same; that of spectra stays empty without
        // convolutions.
        let share = nbytes / if fft.is_some() { 3 } else { 2 };
        Ok(Self {
            job,
            values: Cache::new(d * job.weights.parts(), share),
            singles: Cache::new(d, share),
            spectra: Cache::new(d / 2 + 1, share),
            stack: Vec::new(),
            pair_uses: memory::copied(&job.plan.pair_uses)?,
            sum_uses: memory::copied(&job.plan.sum_uses)?,
            label_uses: memory::copied(&job.plan.label_uses)?,
            operand: memory::filled(T::default(), d)?,
            composed: memory::filled(T::default(), d)?,
            fft,
            n_compositions: 0,
        })
    }

    /// The vector of a tree, as `write` wants it.
    pub(super) fn tree<R>(
        &mut self,
        root: NodeId,
        write: impl FnOnce(ScaledVector<'_, T>) -> R,
        context: &Context,
    ) -> Result<R> {
        let weights = self.job.weights;
        // 1. A leaf: its label, if leaves count.
        if self.job.nodes.is_leaf(root) {
            let label = self.job.nodes.label(root).0;
            if weights.leaf_sum == 0.0 {
                return Ok(write(ScaledVector::nothing()));
            }
            let slot = self.label(label)?;
            let numbers = self.singles.get(slot);
            let weight = T::one();
            let written = write(ScaledVector {
                numbers,
                weight,
                times: weights.leaf_sum,
                exponent: 0,
            });
            self.release_label(label);
            return Ok(written);
        }
        let pair = self.job.plan.pair_of[root.index()];
        // 2. A sum over the fragments of several nodes.
        if !self.job.plan.simple[root.index()] {
            let slot = if let Some(slot) = self.singles.find(Key::Sum(root.0)) {
                slot
            } else {
                self.push_sum(root)?;
                self.run(context)?
            };
            let numbers = self.singles.get(slot);
            let exponent = self.singles.scale(slot).exponent;
            let weight = T::one();
            let written = write(ScaledVector { numbers, weight, times: 1.0, exponent });
            self.release_sum(root);
            Ok(written)
        } else if pair == NONE {
            Ok(write(ScaledVector::nothing()))
        } else {
            // 3. A single vector: of all its nodes, only the root has fragments.
            let slot = self.value(pair, context)?;
            // Rounded as it would be in a sum, then scaled.
            let (weight, exponent) = Sum::first(weights.value, self.values.scale(slot));
            let numbers = &self.values.get(slot)[..self.job.composer.d];
            let written = write(ScaledVector { numbers, weight, times: 1.0, exponent });
            self.release_pair(pair);
            Ok(written)
        }
    }

    /// The vector of a pair, as `write` wants it.
    pub(super) fn fragment<R>(
        &mut self,
        pair: u32,
        write: impl FnOnce(ScaledVector<'_, T>) -> R,
        context: &Context,
    ) -> Result<R> {
        let slot = self.value(pair, context)?;
        let numbers = self.values.get(slot);
        let exponent = self.values.scale(slot).exponent;
        Ok(write(ScaledVector { numbers, weight: T::one(), times: 1.0, exponent }))
    }

    fn value(&mut self, pair: u32, context: &Context) -> Result<u32> {
        if let Some(slot) = self.values.find(Key::Value(pair)) {
            return Ok(slot);
        }
        self.push_pair(pair)?;
        self.run(context)
    }

    /// Runs the frames on the stack; the slot of what the lowest one computed.
    fn run(&mut self, context: &Context) -> Result<u32> {
        let mut steps = 0u32;
        let mut slot = 0;
        // A frame that waits for others returns 0, which nobody reads: the lowest frame
        // is the last to end.
        while let Some(frame) = self.stack.pop() {
            slot = match frame {
                Frame::Pair { pair, held, ready } => self.step_pair(pair, held, ready),
                Frame::Sum { node, heavy, next, sum } => {
                    self.step_sum(node, heavy, next, sum)
                }
            }?;
            steps += 1;
            if steps.is_multiple_of(64) || self.job.composer.d >= LONG_VECTOR {
                // On failure the call ends, and the worker with it.
                context.check_now()?;
            }
        }
        Ok(slot)
    }

    // --- pairs ------------------------------------------------------------------

    fn push_pair(&mut self, pair: u32) -> Result<()> {
        let held = [PinnedOperand::Nothing; 2];
        memory::push(&mut self.stack, Frame::Pair { pair, held, ready: 0 })
    }

    /// Asks for operands, the heavy one first; composes when both are there.
    fn step_pair(
        &mut self,
        pair: u32,
        mut held: [PinnedOperand; 2],
        mut ready: u8,
    ) -> Result<u32> {
        let plan = self.job.plan;
        let operands =
            [plan.pairs[pair as usize].left, plan.pairs[pair as usize].right];
        let cost = operands.map(|o| o.pair().map_or(0, |p| plan.cost[p as usize]));
        // The left one if both take the same: an order that follows from the pair
        // alone.
        let heavy = usize::from(cost[1] > cost[0]);
        while ready < 2 {
            let side = if ready == 0 { heavy } else { 1 - heavy };
            if let Some(below) = operands[side].pair() {
                if let Some(found) = self.pin_operand(side, below) {
                    held[side] = found;
                } else {
                    // It waits below what it asked for, and looks again after that.
                    memory::push(&mut self.stack, Frame::Pair { pair, held, ready })?;
                    self.push_pair(below)?;
                    return Ok(0);
                }
            }
            ready += 1;
        }
        let slot = self.compose(pair, held)?;
        // From here on they may go, if nobody else asks for them.
        for (held, operand) in held.into_iter().zip(operands) {
            match held {
                PinnedOperand::Nothing => {}
                PinnedOperand::Value(slot) => self.values.unpin(slot),
                PinnedOperand::Spectrum(slot) => self.spectra.unpin(slot),
            }
            if let Some(below) = operand.pair() {
                self.release_pair(below);
            }
        }
        Ok(slot)
    }

    /// Pins what an operand needs of the pair below it, if it is there.
    fn pin_operand(&mut self, side: usize, below: u32) -> Option<PinnedOperand> {
        let partial = self.job.weights.rule == Rule::Partial;
        // The left side of partial trees is n, R or their sum, and never the pair's
        // value: a spectrum of that is of no use.
        if self.fft.is_some() && !(partial && side == 0) {
            let key = [Key::LeftValue(below), Key::RightValue(below)][side];
            if let Some(slot) = self.spectra.find(key) {
                self.spectra.pin(slot);
                return Some(PinnedOperand::Spectrum(slot));
            }
        }
        let slot = self.values.find(Key::Value(below))?;
        self.values.pin(slot);
        Some(PinnedOperand::Value(slot))
    }

    fn compose(&mut self, pair: u32, held: [PinnedOperand; 2]) -> Result<u32> {
        // While the operands are pinned: it may come from something that is evicted.
        let mut out = self.values.buffer()?;
        let mut scale = match self.job.weights.rule {
            Rule::Partial => self.compose_partial(pair, held, &mut out),
            _ if self.fft.is_some() => self.compose_spectra(pair, held, &mut out),
            _ => self.compose_vectors(pair, held, &mut out),
        }?;
        scale.rescale_if_drifted(self.job.composer.natural(), &mut out);
        let cost = self.job.plan.cost[pair as usize];
        self.values.insert(Key::Value(pair), out, scale, cost)
    }

    /// The weights of an operand's label and of its value.
    fn weights_of(&self, operand: Operand) -> (f64, f64) {
        let weights = &self.job.weights;
        match operand {
            Operand::Start(_) | Operand::Partial(_) => (1.0, 1.0),
            Operand::Leaf(_) => (weights.leaf, 0.0),
            Operand::Cut(_) => (weights.cut, 0.0),
            Operand::Inner(..) => (1.0, weights.value),
        }
    }

    /// The scale of what is held of a pair.
    fn scale_of(&self, held: PinnedOperand) -> Option<Scale> {
        match held {
            PinnedOperand::Nothing => None,
            PinnedOperand::Value(slot) => Some(self.values.scale(slot)),
            PinnedOperand::Spectrum(slot) => Some(self.spectra.scale(slot)),
        }
    }

    /// What an operand's label and value are multiplied by, and the scale of their sum.
    fn weighted(
        &self,
        operand: Operand,
        has_label: bool,
        held: PinnedOperand,
    ) -> Weighted {
        let (label, value) = self.weights_of(operand);
        Scale::operand(
            has_label.then(|| (label, self.job.composer.label_scale())),
            self.scale_of(held).map(|scale| (value, scale)),
        )
    }

    fn compose_vectors(
        &mut self,
        pair: u32,
        held: [PinnedOperand; 2],
        out: &mut [T],
    ) -> Result<Scale> {
        let pair = self.job.plan.pairs[pair as usize];
        let operands = [pair.left, pair.right];
        let labels = operands.map(|o| label_of(self.job.weights.rule, o, pair.head));
        // Pinned, as fetching the second may evict the first.
        let slots = self.pinned_labels(labels)?;
        let weighted: [Weighted; 2] = std::array::from_fn(|side| {
            self.weighted(operands[side], labels[side].is_some(), held[side])
        });
        let form = |side: usize| Form {
            label: slots[side]
                .map(|s| (self.singles.get(s), T::of(weighted[side].label))),
            value: match held[side] {
                PinnedOperand::Value(s) => {
                    Some((self.values.get(s), T::of(weighted[side].value)))
                }
                _ => None,
            },
        };
        let (left, right) = (form(0), form(1));
        let left = left.vector(&mut self.operand);
        self.job.composer.product(left, &right, out);
        self.n_compositions += 1;
        self.release_labels(labels, slots);
        Ok(weighted[0].scale.product(weighted[1].scale))
    }

    fn compose_spectra(
        &mut self,
        pair: u32,
        held: [PinnedOperand; 2],
        out: &mut [T],
    ) -> Result<Scale> {
        let pair = self.job.plan.pairs[pair as usize];
        let operands = [pair.left, pair.right];
        let mut labels = [None; 2];
        let mut values = [None; 2];
        // Pinned, each as soon as it is there: fetching the next may evict it.
        for (side, operand) in operands.into_iter().enumerate() {
            labels[side] = label_of(self.job.weights.rule, operand, pair.head)
                .map(|label| self.pinned_label_spectrum(side, label))
                .transpose()?;
            values[side] = operand
                .pair()
                .map(|below| self.spectrum(side, below, held[side]))
                .transpose()?;
        }
        let weighted: [Weighted; 2] = std::array::from_fn(|side| {
            self.weighted(operands[side], labels[side].is_some(), held[side])
        });
        let form = |side: usize| {
            let Weighted { label, value, .. } = weighted[side];
            Form {
                label: labels[side].map(|s| (self.spectra.get(s), T::of(label))),
                value: values[side].map(|s| (self.spectra.get(s), T::of(value))),
            }
        };
        // Sums of label and value are made in the pass that multiplies them.
        let (left, right) = (form(0), form(1));
        if let Some(Transform { fft, scratch, .. }) = &mut self.fft {
            fft.product(&left, &right, out, scratch);
        }
        self.n_compositions += 1;
        // From here on the buffers may be used for others.
        for slot in labels.into_iter().chain(values).flatten() {
            self.spectra.unpin(slot);
        }
        Ok(weighted[0].scale.product(weighted[1].scale))
    }

    /// out and R of a prefix of a node's children: with P = (n + R) ◇ s(child), R is
    /// λ R + P and out is out + P. With a longest length, one R for each.
    fn compose_partial(
        &mut self,
        pair: u32,
        held: [PinnedOperand; 2],
        out: &mut [T],
    ) -> Result<Scale> {
        let pair = self.job.plan.pairs[pair as usize];
        let d = self.job.composer.d;
        // 1. The operands: the node, the child on the right, what stands before it.
        let right = [None, label_of(Rule::Partial, pair.right, pair.head)];
        let slots = self.pinned_labels(right)?;
        let head = self.pinned_label(pair.head)?;
        let of_right = self.weighted(pair.right, right[1].is_some(), held[1]);
        // The right operand's spectrum serves all lengths.
        let spectrum = match (right[1], pair.right.pair()) {
            _ if self.fft.is_none() => None,
            (Some(label), _) => Some(self.pinned_label_spectrum(1, label)?),
            (None, pair) => Some(self.spectrum(1, pair.unwrap_or(NONE), held[1])?),
        };
        let before = match held[0] {
            PinnedOperand::Value(slot) => Some(self.values.get(slot)),
            _ => None,
        };
        let n = self.singles.get(head);
        let decay = T::of(self.job.weights.decay);
        // 2. out and R of the children before, and their scale with this child.
        let label = self.job.composer.label_scale();
        let old = self.scale_of(held[0]);
        // What is made longer: n, R, or n + R where lengths have no limit.
        let joined = Scale::operand(Some((1.0, label)), old.map(|old| (1.0, old)));
        let left = old.map_or(label, |old| joined.scale.larger(old));
        let longer = left.product(of_right.scale);
        let scale_now = old.unwrap_or(label).larger(longer);
        let keep: T = old.unwrap_or(label).to(scale_now);
        let (sum, rest) = out.split_at_mut(d);
        match before {
            Some(before) => scale(sum, keep, &before[..d]),
            // The node alone is λ n: what subsequences are added to.
            None => scale(sum, keep * decay, n),
        }
        rest.fill(T::zero());
        // 3. Subsequences that this child ends, by length where that has a limit.
        let longest = self.job.weights.longest;
        let rounds = longest.map_or(1, |l| if before.is_some() { l } else { 1 });
        for round in 0..rounds {
            // What is to be made longer: for round 0 the node alone.
            let (left, of_left) = match (before, longest) {
                (Some(before), None) => {
                    let weights = [joined.label, joined.value].map(T::of);
                    let both = n.iter().zip(&before[d..]);
                    for (x, (&n, &r)) in self.operand.iter_mut().zip(both) {
                        *x = weights[0] * n + weights[1] * r;
                    }
                    (&*self.operand, joined.scale)
                }
                (Some(before), Some(_)) if round > 0 => {
                    (&before[round * d..][..d], old.unwrap_or(label))
                }
                _ => (n, label),
            };
            let weight: T = of_left.product(of_right.scale).to(scale_now);
            // No subsequence is that long yet, nor longer.
            if round > 0 && left.iter().all(rustfft::num_traits::Zero::is_zero) {
                break;
            }
            if let (Some(Transform { fft, scratch, left: shuffled }), Some(right)) =
                (&mut self.fft, spectrum)
            {
                let composer = self.job.composer;
                composer.spectrum(fft, Side::Left, left, shuffled, scratch);
                let Weighted { label, value, .. } = of_right;
                let weight = if slots[1].is_some() { label } else { value };
                let right = Some((self.spectra.get(right), T::of(weight)));
                let right = Form { label: None, value: right };
                fft.product(&Form::of(shuffled), &right, &mut self.composed, scratch);
            } else {
                let label =
                    slots[1].map(|s| (self.singles.get(s), T::of(of_right.label)));
                let value = match held[1] {
                    PinnedOperand::Value(s) => {
                        Some((&self.values.get(s)[..d], T::of(of_right.value)))
                    }
                    _ => None,
                };
                let right = Form { label, value };
                self.job.composer.product(left, &right, &mut self.composed);
            }
            self.n_compositions += 1;
            add(sum, weight, &self.composed);
            // R of this length, if subsequences of it may go on.
            if let Some(r) = rest.get_mut(round * d..(round + 1) * d) {
                scale(r, weight, &self.composed);
                if let Some(before) = before {
                    add(r, keep * decay, &before[(round + 1) * d..][..d]);
                }
            }
        }
        // 4. Give back what was pinned.
        if let Some(slot) = spectrum {
            self.spectra.unpin(slot);
        }
        self.singles.unpin(head);
        self.release_labels(right, slots);
        self.release_label(pair.head);
        Ok(scale_now)
    }

    /// The spectrum of a pair's value as an operand, pinned.
    fn spectrum(&mut self, side: usize, pair: u32, held: PinnedOperand) -> Result<u32> {
        let value = match held {
            PinnedOperand::Spectrum(slot) => {
                // Pinned once more, as the caller lets go of what it gets here.
                self.spectra.pin(slot);
                return Ok(slot);
            }
            PinnedOperand::Value(slot) => slot,
            PinnedOperand::Nothing => unreachable!("a pair below is always held"),
        };
        let scale = self.values.scale(value);
        let mut out = self.spectra.buffer()?;
        if let Some(Transform { fft, scratch, .. }) = &mut self.fft {
            let value = &self.values.get(value)[..self.job.composer.d];
            self.job.composer.spectrum(fft, SIDES[side], value, &mut out, scratch);
        }
        let key = [Key::LeftValue(pair), Key::RightValue(pair)][side];
        let cost = self.job.plan.cost[pair as usize];
        let slot = self.spectra.insert(key, out, scale, cost)?;
        self.spectra.pin(slot);
        Ok(slot)
    }

    fn release_pair(&mut self, pair: u32) {
        let uses = &mut self.pair_uses[pair as usize];
        *uses = uses.saturating_sub(1);
        if *uses == 0 {
            // Nobody asks for it again in this batch: its buffer is the next to be
            // used.
            self.values.forget(Key::Value(pair));
            if self.fft.is_some() {
                self.spectra.forget(Key::LeftValue(pair));
                self.spectra.forget(Key::RightValue(pair));
            }
        }
    }

    // --- labels -----------------------------------------------------------------

    fn label(&mut self, label: u32) -> Result<u32> {
        if let Some(slot) = self.singles.find(Key::Label(label)) {
            return Ok(slot);
        }
        let mut out = self.singles.buffer()?;
        let name = self.job.nodes.labels().name(crate::Label(label));
        // Without the context: steps of the stack ask it often enough.
        self.job.composer.label(name, &mut out, &Context::default())?;
        let scale = self.job.composer.label_scale();
        self.singles.insert(Key::Label(label), out, scale, 4)
    }

    fn pinned_label(&mut self, label: u32) -> Result<u32> {
        let slot = self.label(label)?;
        self.singles.pin(slot);
        Ok(slot)
    }

    fn pinned_labels(&mut self, labels: [Option<u32>; 2]) -> Result<[Option<u32>; 2]> {
        let [left, right] = labels.map(|l| l.map(|l| self.pinned_label(l)).transpose());
        Ok([left?, right?])
    }

    fn pinned_label_spectrum(&mut self, side: usize, label: u32) -> Result<u32> {
        let key = [Key::LeftLabel(label), Key::RightLabel(label)][side];
        let slot = if let Some(slot) = self.spectra.find(key) {
            slot
        } else {
            // Not pinned: the buffer comes from another cache.
            let vector = self.label(label)?;
            let mut out = self.spectra.buffer()?;
            if let Some(Transform { fft, scratch, .. }) = &mut self.fft {
                let vector = self.singles.get(vector);
                self.job.composer.spectrum(fft, SIDES[side], vector, &mut out, scratch);
            }
            self.spectra.insert(key, out, self.job.composer.label_scale(), 4)?
        };
        self.spectra.pin(slot);
        Ok(slot)
    }

    fn release_labels(&mut self, labels: [Option<u32>; 2], slots: [Option<u32>; 2]) {
        slots.into_iter().flatten().for_each(|slot| self.singles.unpin(slot));
        labels.into_iter().flatten().for_each(|label| self.release_label(label));
    }

    fn release_label(&mut self, label: u32) {
        // With spectra, a label is asked for less often than it is used.
        if self.fft.is_some() {
            return;
        }
        let uses = &mut self.label_uses[label as usize];
        *uses = uses.saturating_sub(1);
        if *uses == 0 {
            self.singles.forget(Key::Label(label));
        }
    }

    // --- sums -------------------------------------------------------------------

    fn push_sum(&mut self, node: NodeId) -> Result<()> {
        let plan = self.job.plan;
        let children = self.job.nodes.children(node);
        let size = |place: usize| plan.size[children[place].index()];
        // The first of the heaviest: the same for equal trees.
        let mut heavy = 0;
        for place in 1..children.len() {
            if size(place) > size(heavy) {
                heavy = place;
            }
        }
        let heavy = heavy as u32;
        memory::push(&mut self.stack, Frame::Sum { node, heavy, next: 0, sum: None })
    }

    fn step_sum(
        &mut self,
        node: NodeId,
        heavy: u32,
        mut next: u32,
        mut sum: Option<Sum<T>>,
    ) -> Result<u32> {
        // 1. The children, the heavy one first: nothing else waits while it is
        // computed.
        let plan = self.job.plan;
        let weights = self.job.weights;
        let children = self.job.nodes.children(node);
        while (next as usize) < children.len() {
            // The heavy child first, then the others in order.
            let place = match next {
                0 => heavy,
                n if n <= heavy => n - 1,
                n => n,
            };
            let child = children[place as usize];
            let pair = plan.pair_of[child.index()];
            // A leaf adds its label, where leaves count.
            if self.job.nodes.is_leaf(child) {
                if weights.leaf_sum > 0.0 {
                    let label = self.job.nodes.label(child).0;
                    let slot = self.label(label)?;
                    self.add_single(&mut sum, weights.leaf_sum, slot)?;
                    self.release_label(label);
                }
            } else if plan.simple[child.index()] {
                if pair != NONE {
                    // Not there: it is computed above this frame, which then finds it.
                    let Some(slot) = self.values.find(Key::Value(pair)) else {
                        memory::push(
                            &mut self.stack,
                            Frame::Sum { node, heavy, next, sum },
                        )?;
                        self.push_pair(pair)?;
                        return Ok(0);
                    };
                    self.add_value(&mut sum, weights.value, slot)?;
                    self.release_pair(pair);
                }
            } else {
                let Some(slot) = self.singles.find(Key::Sum(child.0)) else {
                    memory::push(
                        &mut self.stack,
                        Frame::Sum { node, heavy, next, sum },
                    )?;
                    self.push_sum(child)?;
                    return Ok(0);
                };
                self.add_single(&mut sum, 1.0, slot)?;
                self.release_sum(child);
            }
            next += 1;
        }
        // 2. The node's own fragments.
        let pair = plan.pair_of[node.index()];
        let mut cost = 1;
        if pair != NONE {
            let Some(slot) = self.values.find(Key::Value(pair)) else {
                memory::push(&mut self.stack, Frame::Sum { node, heavy, next, sum })?;
                self.push_pair(pair)?;
                return Ok(0);
            };
            self.add_value(&mut sum, weights.value, slot)?;
            self.release_pair(pair);
            cost = plan.cost[pair as usize];
        }
        // Neither a child nor a pair adds anything: zeros, as for any other sum.
        let sum = if let Some(sum) = sum {
            sum
        } else {
            let mut numbers = self.singles.buffer()?;
            numbers.fill(T::zero());
            Sum { numbers, exponent: 0 }
        };
        let scale = Scale::of_sum(sum.exponent);
        self.singles.insert(Key::Sum(node.0), sum.numbers, scale, cost)
    }

    fn add_single(
        &mut self,
        sum: &mut Option<Sum<T>>,
        weight: f64,
        slot: u32,
    ) -> Result<()> {
        let scale_of = self.singles.scale(slot);
        // Not the first term: the sum keeps its buffer.
        if let Some(sum) = sum {
            let weight = sum.admit(weight, scale_of);
            add(&mut sum.numbers, weight, self.singles.get(slot));
            return Ok(());
        }
        // Pinned, as the new buffer may be one that is evicted from this cache.
        self.singles.pin(slot);
        let numbers = self.singles.buffer();
        self.singles.unpin(slot);
        let mut numbers = numbers?;
        let (weight, exponent) = Sum::first(weight, scale_of);
        scale(&mut numbers, weight, self.singles.get(slot));
        *sum = Some(Sum { numbers, exponent });
        Ok(())
    }

    fn add_value(
        &mut self,
        sum: &mut Option<Sum<T>>,
        weight: f64,
        slot: u32,
    ) -> Result<()> {
        let (value, scale_of) = (self.values.get(slot), self.values.scale(slot));
        if let Some(sum) = sum {
            let weight = sum.admit(weight, scale_of);
            add(&mut sum.numbers, weight, value);
            return Ok(());
        }
        // Values are in another cache, so they need not be pinned for this.
        let mut numbers = self.singles.buffer()?;
        let (weight, exponent) = Sum::first(weight, scale_of);
        scale(&mut numbers, weight, value);
        *sum = Some(Sum { numbers, exponent });
        Ok(())
    }

    fn release_sum(&mut self, node: NodeId) {
        let uses = &mut self.sum_uses[node.index()];
        *uses = uses.saturating_sub(1);
        if *uses == 0 {
            self.singles.forget(Key::Sum(node.0));
        }
    }
}

const SIDES: [Side; 2] = [Side::Left, Side::Right];
