//! From what a worker found to a row of the result: scaled, divided by a norm, and looked
//! at for noise.
//!
//! **Noise.** Where every fragment had a random direction of its own, ‖T‖² would be K(T,T)
//! with a relative error of √(2/d), for trees of any size. But fragments of one node are
//! products of the same vectors. A child that may be expanded or not gives its block of b
//! numbers (4 for quaternions) the factor |1 + √λ q|² with q uniform among those of norm 1:
//! on average 1 + λ, with the relative variance c = (4/b) λ / (1 + λ)². Variances of
//! factors multiply, so with k such children the relative variance of ‖T‖² over d/b blocks
//! is (1 + c)^k b/d, while K(T,T)/λ is (1 + λ)^k. With p = ln(1 + c) / ln(1 + λ) it is
//!
//! ```text
//! noise(T) = (‖T‖²/λ)^p b/d         λ: what the smallest fragments weigh
//! ```
//!
//! Measured on 1,500 Java functions at d = 1024 and 8192 with one seed, quaternions, λ = .25
//! to .4, before the rule below: of the trees whose self-product is off by more than the
//! factor 2, more than nine in ten have a noise above 1/2; of the trees with such a noise,
//! 15 to 45 % are off by so much. The bounds on p were fitted to the same functions.
//!
//! That power of ‖T‖² is too low for one wide node at a small λ, where all of ‖T‖² comes
//! from one product: of 90 nodes with 10 to 99 children, at λ = .1 and d = 1024, it misses
//! six in ten of those off by more than 2. So subset trees have a second rule, which adds
//! up what each node brings by its own product:
//!
//! ```text
//! w(n) = λ Π (1 + w(c))                                 r(n) = E|s(n)|⁴ / w(n)²
//! r(n) = Π (1 + (4/b) x / (1 + w(c)) + (r(c) - 1) x²)   x = w(c) / (1 + w(c))
//! noise(T) = Σ (w(n) / Σ w)² (r(n) - 1) b/d             equal subtrees: one n of count² w
//! ```
//!
//! It misses trees whose nodes share fragments, which the first rule sees: a tree is noisy
//! by either.
//!
//! And where vectors are divided by the exact norm, one is noise whose ‖T‖² is above
//! 2^20 K(T,T): K(T,T) is its mean over seeds.
//!
//! A tree may also have a large K(T,T) since it repeats small fragments, which is no
//! reason for noise. So it has to be far above what fragments of one production alone give:
//! the sum of squares of their counts.

use super::composition::{Composition, Real};
use super::scale::scale;
use super::{Norm, Settings};
use crate::kernel::{Rule, Scaled, Sketch};
use crate::memory::{self, Map};
use crate::vector::{Loop, vectorized};
use crate::{NodeId, Nodes, Result};

/// A vector: numbers · weight · times · 2^exponent, as it is inside.
pub(super) struct ScaledVector<'a, T> {
    pub(super) numbers: &'a [T],
    /// Multiplied first, and rounded as a term of a sum is.
    pub(super) weight: T,
    pub(super) times: f64,
    pub(super) exponent: i64,
}

impl<T: Real> ScaledVector<'_, T> {
    /// The vector of a tree without fragments.
    pub(super) fn nothing() -> Self {
        Self { numbers: &[], weight: T::one(), times: 0.0, exponent: 0 }
    }

    /// The logarithm of the squared norm.
    fn size(&self) -> f64 {
        let mut sum = 0.0;
        vectorized(Squares { numbers: self.numbers, sum: &mut sum });
        sum.log2()
            + 2.0 * ((self.weight.get() * self.times).log2() + self.exponent as f64)
    }

    /// Its numbers times a factor.
    pub(super) fn write(&self, factor: Scaled, out: &mut [T]) {
        if self.numbers.is_empty() {
            return out.fill(T::zero());
        }
        let total = (factor * Scaled::from_f64(self.times)).times_two_to(self.exponent);
        let plain = T::of(total.value());
        // Below 2^-120 a number of the smallest type would lose bits.
        if plain.get().is_normal() && (total.log2() > -120.0 || size_of::<T>() == 8) {
            return self.scaled(plain, out);
        }
        // Only number and factor together may be in range.
        for (out, &x) in out.iter_mut().zip(self.numbers) {
            *out = T::of((total * Scaled::from_f64((self.weight * x).get())).value());
        }
    }

    /// Its direction: numbers of the size that they have.
    fn write_direction(&self, unit: f64, out: &mut [T]) -> bool {
        if self.numbers.is_empty() {
            out.fill(T::zero());
            return false;
        }
        self.scaled(T::of(self.times * (1.0 / unit)), out);
        to_unit(out)
    }

    fn scaled(&self, factor: T, out: &mut [T]) {
        if self.weight == T::one() {
            return scale(out, factor, self.numbers);
        }
        for (out, &x) in out.iter_mut().zip(self.numbers) {
            *out = factor * (self.weight * x);
        }
    }
}

/// The noise above which it has won.
const NOISE_LIMIT: f64 = 0.5;
/// Bits by which ‖T‖² is above that of the smallest fragments alone, where a vector is mostly
/// noise.
const ABOVE_SMALLEST: f64 = 4.0;

/// Bits by which ‖T‖² is above K(T,T), its mean, once in a million times at most (Markov).
const BEYOND_CHANCE: f64 = 20.0;

/// How rows are made of vectors.
pub(super) struct RowWriter<'a> {
    nodes: &'a Nodes,
    weights: Sketch,
    unit: f64,
    normalize: Option<Norm>,
    /// Whether vectors have all fragments of the kernel whose norm they are divided by.
    is_whole: bool,
    /// The logarithm of ‖T‖² above which a vector is mostly noise.
    limit: f64,
    /// By node, for vectors that have all fragments of subset trees.
    products: Vec<Product>,
    /// b/d, by which the variance of a block becomes that of a vector.
    share_of_block: f64,
}

/// What came of one row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Row {
    pub(super) is_zero: bool,
    pub(super) is_noisy: bool,
    pub(super) is_finite: bool,
    /// The logarithm of ‖T‖².
    pub(super) size: f64,
}

impl<'a> RowWriter<'a> {
    pub(super) fn new(
        nodes: &'a Nodes,
        roots: &[NodeId],
        settings: &Settings,
        weights: Sketch,
        unit: f64,
    ) -> Result<Self> {
        let is_exact = settings.normalize == Some(Norm::Exact);
        let is_whole = settings.max_height.is_none() && settings.paths.is_none();
        let block = block(settings.composition);
        let products = if is_whole && weights.rule == Rule::Subset {
            products(nodes, roots, weights.smallest, block)?
        } else {
            Vec::new()
        };
        Ok(Self {
            nodes,
            weights,
            unit,
            normalize: settings.normalize,
            is_whole: is_exact && is_whole,
            limit: limit(settings, &weights),
            products,
            share_of_block: block / numbers(settings),
        })
    }

    /// Writes the row of a tree. `self_kernel` is K(T,T) where the norm is a kernel's.
    pub(super) fn row<T: Real>(
        &self,
        root: NodeId,
        found: &ScaledVector<'_, T>,
        self_kernel: Scaled,
        out: &mut [T],
    ) -> Result<Row> {
        // Vectors are larger inside by the unit, and their squares by its square.
        let size = found.size() - 2.0 * self.unit.log2();
        // A vector that is mostly noise may lack what is largest in the tree.
        let right_size = match self.products.get(root.index()) {
            _ if self.is_whole => self_kernel.log2(),
            Some(product) => size.max(product.largest.log2()),
            None => size,
        };
        // Where the estimate misses a product that happens to be long, the length tells.
        let is_beyond = self.normalize == Some(Norm::Exact)
            && !self_kernel.is_zero()
            && size - self_kernel.log2() > BEYOND_CHANCE;
        let is_noisy = is_beyond || self.is_noisy(root, right_size)?;
        let divide = match self.normalize {
            None => Some(Scaled::from_f64(1.0 / self.unit)),
            Some(Norm::Own) => None,
            // No fragments, as the kernel with itself is 0.
            _ if self_kernel.is_zero() => {
                out.fill(T::zero());
                return Ok(Row { is_zero: true, is_noisy, is_finite: true, size });
            }
            // The length is noise as well, if it is far above the 1 that it can be, or
            // below where nothing is left out.
            Some(_) if is_noisy && self.is_far_off(size - self_kernel.log2()) => None,
            Some(Norm::Exact | Norm::Full) => Some(match self_kernel.value() {
                float if float.is_normal() => {
                    Scaled::from_f64(1.0 / self.unit / float.sqrt())
                }
                _ => Scaled::from_f64(1.0 / self.unit) * self_kernel.inverse_root(),
            }),
        };
        let Some(factor) = divide else {
            let is_there = found.write_direction(self.unit, out);
            return Ok(Row { is_zero: !is_there, is_noisy, is_finite: true, size });
        };
        found.write(factor, out);
        // A vector is not longer than the largest float, or has to be looked at.
        let largest = Scaled::from_f64(T::LARGEST).log2() - 1.0;
        let is_finite = size / 2.0 + (factor.log2() + self.unit.log2()) < largest
            || out.iter().all(|x| x.get().is_finite());
        Ok(Row { is_zero: false, is_noisy, is_finite, size })
    }

    /// Whether ‖T‖² is off by more than a factor of 2, by the logarithm of its share of
    /// K(T,T).
    fn is_far_off(&self, share: f64) -> bool {
        share > 1.0 || (self.is_whole && share < -1.0)
    }

    /// Whether the vector of a tree is mostly noise, by the logarithm of its ‖T‖².
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn is_noisy(&self, root: NodeId, size: f64) -> Result<bool> {
        let by_size =
            size > self.limit && size > self.size_of_smallest(root)? + ABOVE_SMALLEST;
        Ok(by_size || self.noise_of_products(root)? > NOISE_LIMIT)
    }

    /// What the product of each node brings, for vectors that have all fragments.
    fn noise_of_products(&self, root: NodeId) -> Result<f64> {
        let Some(most) = self.products.get(root.index()) else { return Ok(0.0) };
        if (most.largest_spread - 1.0) * self.share_of_block <= NOISE_LIMIT {
            return Ok(0.0); // shares add up to 1 at most: nearly all trees end here
        }
        // No float holds a weight or a spread: far too large for any d.
        if most.largest.is_infinite() || most.largest_spread.is_infinite() {
            return Ok(f64::INFINITY);
        }
        let of_each = counts(self.nodes, root)?.into_iter().map(|(node, count)| {
            let product = self.products[node.index()];
            // In units of the largest, so that squares stay in range.
            (count * count * (product.weight / most.largest), product.spread)
        });
        let of_each = memory::collect(of_each)?;
        let total: f64 = of_each.iter().map(|x| x.0).sum();
        let excess = of_each.iter().map(|&(w, r)| (w / total).powi(2) * (r - 1.0));
        Ok(excess.sum::<f64>() * self.share_of_block)
    }

    /// The logarithm of what ‖T‖² would be if the smallest fragments were all: those of one
    /// production, or of one node for partial trees.
    fn size_of_smallest(&self, root: NodeId) -> Result<f64> {
        let is_partial = self.weights.rule == Rule::Partial;
        let kinds =
            counts(self.nodes, root)?.into_iter().filter_map(|(node, count)| {
                let kind = if is_partial {
                    Some(self.nodes.label(node).0)
                } else {
                    self.nodes.production(node).map(|production| production.0)
                };
                Some((kind?, count))
            });
        let mut kinds = memory::collect(kinds)?;
        memory::sort_by_key(&mut kinds, |kind| kind.0)?;
        let same = kinds.chunk_by(|a, b| a.0 == b.0);
        let counts = same.map(|same| same.iter().map(|kind| kind.1).sum::<f64>());
        let squares: f64 = counts.map(|count| count * count).sum();
        Ok(squares.log2() + self.weights.smallest.log2())
    }
}

/// How often each subtree is in a tree.
fn counts(nodes: &Nodes, root: NodeId) -> Result<Vec<(NodeId, f64)>> {
    // Parents come before their children.
    let mut times: Map<NodeId, f64> = Map::of([(root, 1.0)])?;
    let mut subtrees = nodes.try_subtrees(root)?;
    // Ids ascend from children to parents, so all parents have been counted.
    subtrees.sort_unstable_by(|a, b| b.cmp(a));
    let counted = subtrees.into_iter().map(|node| {
        let count = times.get(&node).copied().unwrap_or(0.0);
        for &child in nodes.children(node) {
            *times.get_or(child, 0.0)? += count;
        }
        Ok((node, count))
    });
    memory::try_collect(counted)
}

/// The vector s(n) of a node, with the names of the formulas above.
#[derive(Debug, Clone, Copy)]
struct Product {
    /// w; infinite where that is too large for a float.
    weight: f64,
    /// r.
    spread: f64,
    /// The largest w among this node and all below.
    largest: f64,
    /// The largest r.
    largest_spread: f64,
}

/// Those of the nodes of some trees; of other nodes nothing.
fn products(
    nodes: &Nodes,
    roots: &[NodeId],
    decay: f64,
    block: f64,
) -> Result<Vec<Product>> {
    let is_reached = nodes.reachable(roots)?;
    let nothing =
        Product { weight: 0.0, spread: 1.0, largest: 0.0, largest_spread: 1.0 };
    let mut products = memory::filled(nothing, is_reached.len())?;
    let reached = (0..is_reached.len()).filter(|&node| is_reached[node]);
    // By ascending ids: children before parents.
    for node in reached.map(|node| NodeId(node as u32)) {
        let children = nodes.children(node);
        let (mut weight, mut spread) = (decay, 1.0);
        for child in children.iter().map(|c| products[c.index()]) {
            let w = child.weight;
            // w / (1 + w), in a form that holds for an infinite w.
            let x = 1.0 / (1.0 + 1.0 / w);
            weight *= 1.0 + w;
            spread *= 1.0 + 4.0 / block * x / (1.0 + w) + (child.spread - 1.0) * x * x;
        }
        // A leaf has no fragment of its own: only its parent has it.
        if children.is_empty() {
            weight = 0.0;
        }
        let (mut largest, mut largest_spread) = (weight, spread);
        for child in children.iter().map(|c| products[c.index()]) {
            largest = largest.max(child.largest);
            largest_spread = f64::max(largest_spread, child.largest_spread);
        }
        products[node.index()] = Product { weight, spread, largest, largest_spread };
    }
    Ok(products)
}

/// How many numbers of a vector are multiplied together.
fn block(composition: Composition) -> f64 {
    match composition {
        Composition::Quaternion => 4.0,
        Composition::Phasor | Composition::Convolution => 2.0,
        Composition::Sign | Composition::Gamma => 1.0,
    }
}

/// d, but at least 64: shorter vectors are noise anyway, and a warning for each would say
/// nothing.
fn numbers(settings: &Settings) -> f64 {
    (settings.n_components as f64).max(64.0)
}

/// The logarithm of ‖T‖² above which `noise` is more than 1/2.
fn limit(settings: &Settings, weights: &Sketch) -> f64 {
    let block = block(settings.composition);
    let most = match settings.composition {
        Composition::Quaternion => 0.62,
        Composition::Phasor => 0.85,
        Composition::Convolution => 0.55,
        Composition::Sign => 1.1,
        Composition::Gamma => 1.5,
    };
    let power = match weights.rule {
        // One fragment for each node: none shares a product with another.
        Rule::Subtree => return f64::INFINITY,
        Rule::Partial => f64::min(0.37, most),
        Rule::Subset => {
            let decay = weights.smallest;
            let variance = 4.0 / block * decay / ((1.0 + decay) * (1.0 + decay));
            f64::min(variance.ln_1p() / decay.ln_1p(), most)
        }
    };
    (numbers(settings) * NOISE_LIMIT / block).log2() / power + weights.smallest.log2()
}

/// Divides a vector by its norm, if it is not zero.
fn to_unit<T: Real>(row: &mut [T]) -> bool {
    let squares = row.iter().map(|x| x.get() * x.get()).sum::<f64>();
    // Squares of very large and of very small numbers are no floats.
    let most = if (1e-280..1e300).contains(&squares) {
        1.0
    } else {
        row.iter().fold(0.0f64, |most, x| most.max(x.get().abs()))
    };
    let norm = row.iter().map(|x| (x.get() / most).powi(2)).sum::<f64>().sqrt();
    let is_there = norm > 0.0;
    for x in row.iter_mut().filter(|_| is_there) {
        *x = T::of(x.get() / most / norm);
    }
    is_there
}

/// The sum of squares, in an order that does not depend on the machine.
struct Squares<'a, T> {
    numbers: &'a [T],
    sum: &'a mut f64,
}

impl<T: Real> Loop for Squares<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    fn run(self) {
        // Sixteen sums side by side are vector arithmetic in the same order everywhere.
        let mut lanes = [0.0; 16];
        let (chunks, rest) = self.numbers.as_chunks::<16>();
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane += x.get() * x.get();
            }
        }
        let rest: f64 = rest.iter().map(|x| x.get() * x.get()).sum();
        *self.sum = lanes.iter().sum::<f64>() + rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_whose_squares_are_no_floats_have_a_norm() {
        for scale in [1.0, 1e200, 1e-200, f64::MAX / 8.0] {
            let mut row = [3.0, -4.0].map(|number| number * scale);
            assert!(to_unit(&mut row));
            for (number, expected) in row.iter().zip([0.6, -0.8]) {
                assert!((number - expected).abs() < 1e-15, "{scale}: {row:?}");
            }
        }
        assert!(!to_unit(&mut [0.0f32; 3]));
    }

    #[test]
    fn a_size_is_the_logarithm_of_the_squared_norm() {
        for n in [1, 15, 16, 72, 100] {
            let numbers: Vec<f64> = (1..=n).map(f64::from).collect();
            let vector = ScaledVector {
                numbers: &numbers,
                weight: 4.0,
                times: 0.5,
                exponent: 3,
            };
            let expected = f64::from(n * (n + 1) * (2 * n + 1) / 6).log2() + 8.0;
            assert!((vector.size() - expected).abs() < 1e-12, "{n}");
        }
    }
}
