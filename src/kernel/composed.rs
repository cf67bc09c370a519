//! Kernels made of kernels: sums, products, powers, and what follows from them.
//!
//! | operation | K(a,b), with k, l the parts | keeps dot products, as |
//! |---|---|---|
//! | `Sum` | k + l | features side by side |
//! | `Scaled` | c k, c ≥ 0 | features times √c |
//! | `Product` | k l | pairs of features (Schur) |
//! | `Power` | k^d, d a whole number | a product |
//! | `Normalized` | k / √(k(a,a) k(b,b)), 0 where either is 0 | features of length 1 |
//! | `Polynomial` | (k + c)^d, c ≥ 0 | a sum and a power |
//! | `Gaussian` | exp(-γ (k(a,a) + k(b,b) - 2 k(a,b))), γ > 0 | a limit of polynomials |
//!
//! See Haussler, "Convolution kernels on discrete structures" (1999), and Shawe-Taylor &
//! Cristianini, "Kernel methods for pattern analysis" (2004), section 3.4.
//!
//! A composition is a formula over values of its parts, so it knows nothing of trees. It
//! is written out once as a [`Plan`], steps on a stack over the distinct kernels at its
//! leaves: a kernel that stands in it twice is computed once. Single pairs run it on
//! [`Scaled`] numbers, which do not overflow; rows of matrices on rows of floats
//! ([`crate::gram`]).
//!
//! **Derivatives** follow by the chain rule from those of the leaves. Parameters of parts are
//! named by the way to them: `left__` and `right__` of two kernels, `base__` of one;
//! normalisation adds nothing to a name.
//!
//! # Complexity
//! Time: that of the distinct kernels at the leaves, and a step for each operation. A
//! normalised or Gaussian part also takes the leaves' kernels of trees with themselves.
//! Derivatives: as many numbers in each step as there are parameters.

use std::sync::Arc;

use super::{
    Builtin, Kernel, Number, Parameter, Prepared, Range, Scaled, Sloped, SlopesWorker,
    Value, Worker, parameter,
};
use crate::memory::{self, Map};
use crate::{Context, NodeId, Nodes, Result};

/// What a composition does with its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// The sum of two kernels.
    Sum,
    /// The product of two kernels.
    Product,
    /// A kernel times a factor, finite and not negative.
    Scaled(f64),
    /// A kernel to the power of a whole number from 1 to 1000.
    Power(Option<usize>),
    /// A kernel divided by the root of both self-kernels.
    Normalized,
    /// (k + coef0) to the power of `degree`.
    Polynomial {
        /// A whole number from 1 to 1000.
        degree: Option<usize>,
        /// Finite and not negative.
        coef0: f64,
    },
    /// exp(-γ distance²) of the kernel's distance, γ above 0.
    Gaussian(f64),
}

impl Operation {
    /// Every operation, with numbers to be replaced.
    const ALL: [Self; 7] = [
        Self::Sum,
        Self::Product,
        Self::Scaled(1.0),
        Self::Power(Some(1)),
        Self::Normalized,
        Self::Polynomial { degree: Some(3), coef0: 1.0 },
        Self::Gaussian(1.0),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Product => "Product",
            Self::Scaled(_) => "Scaled",
            Self::Power(_) => "Power",
            Self::Normalized => "Normalized",
            Self::Polynomial { .. } => "Polynomial",
            Self::Gaussian(_) => "Gaussian",
        }
    }

    /// How many kernels it is of.
    fn arity(self) -> usize {
        self.prefixes().len()
    }

    /// What the names of its parts' parameters begin with.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Sum | Self::Product => &["left__", "right__"],
            Self::Normalized => &[""],
            _ => &["base__"],
        }
    }
}

/// A kernel made of kernels.
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::kernel::{Composed, ElasticTree, Operation, SubsetTree};
/// use treekernel_rs::{Forest, gram};
///
/// let parts = vec![Arc::new(SubsetTree::new(1.0)) as _, Arc::new(ElasticTree::new(1.0)) as _];
/// let sum = Composed::new(Operation::Sum, parts)?;
/// let forest = Forest::from_brackets("(A b) (A b)")?;
/// let matrix = gram::gram(&sum, &forest, None, gram::Options::default())?;
/// assert_eq!(matrix[[0, 1]], 1.0 + 3.0);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Composed {
    operation: Operation,
    parts: Vec<Arc<dyn Kernel>>,
    /// Kernels and operations in it.
    size: usize,
}

/// The most kernels and operations in a composition: what follows goes through it by
/// recursion, and writes it out.
const MAX_SIZE: usize = 256;

impl Composed {
    /// An operation on kernels: two for a sum or a product, else one.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for another number of kernels, and
    /// for more than 256 kernels and operations in all.
    pub fn new(operation: Operation, parts: Vec<Arc<dyn Kernel>>) -> Result<Self> {
        if parts.len() != operation.arity() {
            let expected = "two for a sum or a product, else one";
            return Err(parameter("the number of kernels", expected, &parts.len()));
        }
        let size = |part: &Arc<dyn Kernel>| part.composed().map_or(1, |part| part.size);
        let size = 1 + parts.iter().map(size).sum::<usize>();
        if size > MAX_SIZE {
            let expected = "made of at most 256 kernels and operations";
            return Err(parameter("a kernel", expected, &size));
        }
        Ok(Self { operation, parts, size })
    }

    /// The operation of a [name](Kernel::name), whose numbers are set by
    /// [`with`](Kernel::with).
    ///
    /// # Errors
    /// As [`new`](Self::new), and for any other name.
    pub fn by_name(name: &str, parts: Vec<Arc<dyn Kernel>>) -> Result<Self> {
        let operation =
            Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let expected = "the name of an operation on kernels";
        Self::new(
            operation.ok_or_else(|| parameter("operation", expected, &name))?,
            parts,
        )
    }

    /// What it does with its parts.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The kernels it is made of.
    pub fn parts(&self) -> &[Arc<dyn Kernel>] {
        &self.parts
    }

    /// The same, with what the names of their parameters begin with.
    pub(crate) fn named_parts(
        &self,
    ) -> impl Iterator<Item = (&'static str, &Arc<dyn Kernel>)> {
        self.operation.prefixes().iter().copied().zip(&self.parts)
    }
}

impl Kernel for Composed {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn parameters(&self) -> Vec<Parameter> {
        match self.operation {
            Operation::Sum | Operation::Product | Operation::Normalized => Vec::new(),
            Operation::Scaled(factor) => {
                // bounded: one
                vec![Parameter::new("factor", factor, Range::NotNegative)]
            }
            Operation::Power(degree) => {
                vec![Parameter::new("degree", degree, Range::Degree)] // bounded: one
            }
            // bounded: two
            Operation::Polynomial { degree, coef0 } => vec![
                Parameter::new("degree", degree, Range::Degree),
                Parameter::new("coef0", coef0, Range::NotNegative),
            ],
            Operation::Gaussian(gamma) => {
                vec![Parameter::new("gamma", gamma, Range::Positive)] // bounded: one
            }
        }
    }

    /// Parameters of parts, too, by the way to them.
    fn with(&self, name: &str, value: Value) -> Option<Arc<dyn Kernel>> {
        let mut new = self.clone();
        // A prefix tells the part; normalisation has none, so its part's names are its
        // own.
        for (place, (prefix, part)) in self.named_parts().enumerate() {
            let inner = name.strip_prefix(prefix);
            if let Some(changed) = inner.and_then(|inner| part.with(inner, value)) {
                new.parts[place] = changed;
                return Some(Arc::new(new));
            }
        }
        match (&mut new.operation, name) {
            (Operation::Scaled(number), "factor")
            | (Operation::Polynomial { coef0: number, .. }, "coef0")
            | (Operation::Gaussian(number), "gamma") => {
                *number = value.try_into().ok()?;
            }
            (
                Operation::Power(degree) | Operation::Polynomial { degree, .. },
                "degree",
            ) => {
                *degree = value.try_into().ok()?;
            }
            _ => return None,
        }
        Some(Arc::new(new))
    }

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        // Not by the plan: an oracle shares nothing.
        let part_value = |part: usize, a, b| self.parts[part].definition(nodes, a, b);
        let power = |value: f64, degree: Option<usize>| {
            value.powi(degree.unwrap_or_default() as i32)
        };
        let value = part_value(0, a, b);
        match self.operation {
            Operation::Sum => value + part_value(1, a, b),
            Operation::Product => value * part_value(1, a, b),
            Operation::Scaled(factor) => factor * value,
            Operation::Power(degree) => power(value, degree),
            Operation::Normalized => {
                let norm = part_value(0, a, a).sqrt() * part_value(0, b, b).sqrt();
                if norm > 0.0 { value / norm } else { 0.0 }
            }
            Operation::Polynomial { degree, coef0 } => power(value + coef0, degree),
            Operation::Gaussian(gamma) => (-gamma
                * (part_value(0, a, a) + part_value(0, b, b) - 2.0 * value))
                .exp(),
        }
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let plan = Plan::new(self);
        let prepared = plan.leaves.iter().map(|leaf| leaf.pairs(nodes, roots, context));
        let leaves = memory::try_collect(prepared)?;
        Ok(Box::new(Singles { plan, leaves, roots: memory::copied(roots)? }))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        let mut prepared = Slopes::default();
        let formula = prepared.read(self);
        for leaf in Plan::new(self).leaves {
            let Some(leaf) = leaf.sloped(nodes, roots, context)? else {
                return Ok(None);
            };
            memory::push(&mut prepared.leaves, leaf)?;
        }
        let roots = memory::copied(roots)?;
        Ok(Some(Box::new(Slopes { formula: Some(formula), roots, ..prepared })))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        Some(Builtin {
            index: Some(Box::new(self.clone())),
            composed: Some(self),
            ..Builtin::new(self)
        })
    }
}

/// A composition as steps on a stack.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The distinct kernels at its leaves.
    pub(crate) leaves: Vec<Arc<dyn Kernel>>,
    pub(crate) steps: Vec<Step>,
    /// Values that the stack holds at most.
    pub(crate) depth: usize,
    /// Parts whose kernels of trees with themselves are needed.
    pub(crate) n_norms: usize,
}

/// A step. What it takes is on top of the stack, and what it makes comes there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// The value of a leaf.
    Leaf(usize),
    Add,
    Multiply,
    Scale(f64),
    Plus(f64),
    Power(usize),
    /// With the number of the part whose self-kernels divide.
    Normalize(usize),
    /// With γ, and the number of the part.
    Gaussian(f64, usize),
}

impl Plan {
    /// Parameters are in their ranges.
    pub(crate) fn new(kernel: &Composed) -> Self {
        let (leaves, steps) = (Vec::new(), Vec::new());
        let mut plan = Self { leaves, steps, depth: 0, n_norms: 0 };
        plan.write(kernel);
        // What a run of the steps needs at most.
        let mut height = 0;
        for step in &plan.steps {
            match step {
                Step::Leaf(_) => height += 1,
                Step::Add | Step::Multiply => height -= 1,
                _ => {}
            }
            plan.depth = plan.depth.max(height);
        }
        plan
    }

    /// Writes a kernel behind what is there; compositions are at most [`MAX_SIZE`] deep.
    fn write(&mut self, kernel: &Composed) {
        for part in &kernel.parts {
            if let Some(part) = part.composed() {
                self.write(part);
                continue;
            }
            let earlier = self.leaves.iter().position(|leaf| **leaf == **part);
            // bounded: a kernel's parts
            self.steps.push(Step::Leaf(earlier.unwrap_or(self.leaves.len())));
            if earlier.is_none() {
                self.leaves.push(Arc::clone(part)); // bounded: a kernel's parts
            }
        }
        // A polynomial is two steps.
        let power = |degree: Option<usize>| Step::Power(degree.unwrap_or_default());
        if let Operation::Polynomial { coef0, .. } = kernel.operation {
            self.steps.push(Step::Plus(coef0)); // bounded: a kernel's parts
        }
        // bounded: a kernel's parts
        self.steps.push(match kernel.operation {
            Operation::Sum => Step::Add,
            Operation::Product => Step::Multiply,
            Operation::Scaled(factor) => Step::Scale(factor),
            Operation::Power(degree) | Operation::Polynomial { degree, .. } => {
                power(degree)
            }
            Operation::Normalized => Step::Normalize(self.n_norms),
            Operation::Gaussian(gamma) => Step::Gaussian(gamma, self.n_norms),
        });
        if let Operation::Normalized | Operation::Gaussian(_) = kernel.operation {
            self.n_norms += 1;
        }
    }

    /// Runs the steps for values of the leaves; `norm` does what needs self-kernels.
    fn run(
        &self,
        leaves: &[Scaled],
        stack: &mut Vec<Scaled>,
        mut norm: impl FnMut(Step, Scaled) -> Scaled,
    ) -> Scaled {
        stack.clear();
        for &step in &self.steps {
            if let Step::Leaf(leaf) = step {
                stack.push(leaves[leaf]); // bounded: a kernel's parts
                continue;
            }
            // Operands come first, so there is one.
            let Some(top) = stack.pop() else { break };
            let value = match step {
                Step::Add => stack.pop().map_or(top, |below| below + top),
                Step::Multiply => stack.pop().map_or(top, |below| below * top),
                Step::Scale(factor) => top * Scaled::from_f64(factor),
                Step::Plus(constant) => top + Scaled::from_f64(constant),
                Step::Power(degree) => power(top, degree),
                _ => norm(step, top),
            };
            stack.push(value); // bounded: a kernel's parts
        }
        stack.pop().unwrap_or(Scaled::from_f64(0.0))
    }

    /// The kernel of a tree with itself, and in `norms` those of the parts that matter.
    pub(crate) fn self_value(
        &self,
        leaves: &[Scaled],
        stack: &mut Vec<Scaled>,
        norms: &mut Vec<Scaled>,
    ) -> Scaled {
        norms.clear();
        self.run(leaves, stack, |step, value| {
            norms.push(value); // bounded: a kernel's parts
            // Both kernels of a tree with itself are 1, but where there is nothing to
            // normalise by.
            match step {
                Step::Normalize(_) if value.is_zero() => value,
                _ => Scaled::from_f64(1.0),
            }
        })
    }

    /// The kernel of two different trees, with what [`self_value`](Self::self_value)
    /// says of each.
    fn pair(
        &self,
        leaves: &[Scaled],
        stack: &mut Vec<Scaled>,
        [a, b]: [&[Scaled]; 2],
    ) -> Scaled {
        self.run(leaves, stack, |step, value| match step {
            Step::Normalize(part) => {
                Scaled::from_f64(value.normalized(a[part], b[part]))
            }
            Step::Gaussian(gamma, part) => {
                // Rounding may take the distance of nearly equal trees below 0.
                let square = a[part] + b[part] + value * Scaled::from_f64(-2.0);
                Scaled::from_f64((-gamma * square.value().max(0.0)).exp())
            }
            _ => value,
        })
    }
}

/// By squaring.
fn power<N: Number>(mut base: N, mut degree: usize) -> N {
    let mut product = N::from_f64(1.0);
    while degree > 0 {
        if degree % 2 == 1 {
            product = product * base;
        }
        degree /= 2;
        if degree > 0 {
            base = base * base;
        }
    }
    product
}

/// The same of floats, with the same roundings.
#[inline]
pub(crate) fn float_power(base: f64, degree: usize) -> f64 {
    power(base, degree)
}

/// Trees made ready by all leaves.
pub(crate) struct Singles {
    pub(crate) plan: Plan,
    pub(crate) leaves: Vec<Box<dyn Prepared>>,
    pub(crate) roots: Vec<NodeId>,
}

impl Prepared for Singles {
    fn worker(&self) -> Worker<'_> {
        let plan = &self.plan;
        let leaves = self.leaves.iter().map(|leaf| leaf.worker());
        let mut leaves: Vec<_> = leaves.collect(); // bounded: a kernel's parts
        let (mut values, mut stack) = (Vec::new(), Vec::new());
        // By tree: what its kernel with itself says of parts, in a row for many pairs.
        let mut norms_by_tree: Map<usize, Vec<Scaled>> = Map::default();
        Box::new(move |a, b, context| {
            let mut fill = |values: &mut Vec<Scaled>, a, b| {
                values.clear();
                leaves.iter_mut().try_for_each(|leaf| {
                    values.push(leaf(a, b, context)?); // bounded: a kernel's parts
                    Ok::<_, crate::Error>(())
                })
            };
            // Each tree's own kernels once: many pairs of a row share a tree.
            if plan.n_norms > 0 {
                for tree in [a, b] {
                    if norms_by_tree.contains_key(&tree) {
                        continue;
                    }
                    fill(&mut values, tree, tree)?;
                    let mut norms = Vec::new();
                    memory::reserve(&mut norms, plan.n_norms)?;
                    plan.self_value(&values, &mut stack, &mut norms);
                    norms_by_tree.insert(tree, norms)?;
                }
            }
            fill(&mut values, a, b)?;
            // By the formula for equal trees: exactly 1 where that is normalised.
            if self.roots[a] == self.roots[b] {
                return Ok(plan.self_value(&values, &mut stack, &mut Vec::new()));
            }
            let norms_of =
                |tree| norms_by_tree.get(tree).map_or(&[][..], |norms| norms);
            Ok(plan.pair(&values, &mut stack, [norms_of(&a), norms_of(&b)]))
        })
    }
}

/// A value with its derivatives by all parameters of a composition.
#[derive(Debug, Clone)]
struct Jet {
    value: Scaled,
    slopes: Vec<Scaled>,
}

impl Jet {
    /// The chain rule: a function of this one, by its value and its derivative here.
    fn chain(mut self, value: Scaled, derivative: Scaled) -> Self {
        self.slopes.iter_mut().for_each(|slope| *slope = *slope * derivative);
        self.value = value;
        self
    }

    fn constant(mut self, value: f64) -> Self {
        self.slopes.fill(Scaled::from_f64(0.0));
        self.value = Scaled::from_f64(value);
        self
    }

    /// With each derivative made of those of two.
    fn with(
        mut self,
        other: &Self,
        value: Scaled,
        combine: impl Fn(Scaled, Scaled) -> Scaled,
    ) -> Self {
        for (slope, other) in self.slopes.iter_mut().zip(&other.slopes) {
            *slope = combine(*slope, *other);
        }
        self.value = value;
        self
    }
}

/// Values of (a,b), (a,a) and (b,b).
type Jets = [Jet; 3];

/// A composition, as it is read: at most [`MAX_SIZE`] deep.
#[derive(Debug, Clone)]
enum Formula {
    /// A kernel, the place of its first parameter, and how many it has.
    Leaf(usize, usize, usize),
    /// The place of the operation's own parameter, if it has one.
    Of(Operation, usize, Vec<Formula>),
}

/// Trees made ready for a composition and its derivatives.
#[derive(Default)]
struct Slopes {
    formula: Option<Formula>,
    leaves: Vec<Box<dyn Sloped>>,
    roots: Vec<NodeId>,
    distinct: Vec<Arc<dyn Kernel>>,
    /// Parameters, of all parts.
    width: usize,
}

impl Slopes {
    /// Numbers leaves as a [`Plan`] does, and parameters in the order of their names.
    fn read(&mut self, kernel: &Composed) -> Formula {
        let is_number =
            |parameter: &&Parameter| matches!(parameter.value, Value::Number(_));
        let count =
            |kernel: &dyn Kernel| kernel.parameters().iter().filter(is_number).count();
        let first = self.width;
        self.width += count(kernel);
        let parts = kernel.parts.iter().map(|part| {
            if let Some(part) = part.composed() {
                return self.read(part);
            }
            let (first, n) = (self.width, count(&**part));
            self.width += n;
            let earlier = self.distinct.iter().position(|leaf| **leaf == **part);
            if earlier.is_none() {
                self.distinct.push(Arc::clone(part)); // bounded: a kernel's parts
            }
            Formula::Leaf(earlier.unwrap_or(self.distinct.len() - 1), first, n)
        });
        let parts = parts.collect(); // bounded: a kernel's parts
        Formula::Of(kernel.operation, first, parts)
    }
}

impl Formula {
    /// `leaves` has by leaf the values of three pairs, with their own parameters' derivatives.
    fn jets(&self, leaves: &[[(Scaled, Vec<Scaled>); 3]], n_slopes: usize) -> Jets {
        let (operation, parameter, parts) = match self {
            &Self::Leaf(leaf, first, n) => {
                return leaves[leaf].clone().map(|(value, leaf_slopes)| {
                    // bounded: a kernel's parameters
                    let mut slopes = vec![Scaled::from_f64(0.0); n_slopes];
                    slopes[first..first + n].copy_from_slice(&leaf_slopes[..n]);
                    Jet { value, slopes }
                });
            }
            Self::Of(operation, parameter, parts) => (*operation, *parameter, parts),
        };
        // Values and derivatives of the parts, and then the rule of the operation.
        let jets_of = |part: &Formula| part.jets(leaves, n_slopes);
        let [ab, aa, bb] = jets_of(&parts[0]);
        let by = |mut jet: Jet, slope: Scaled| {
            jet.slopes[parameter] = jet.slopes[parameter] + slope;
            jet
        };
        // u^d, and its derivative by u.
        let to_the = |u: Scaled, degree: Option<usize>| {
            let degree = degree.unwrap_or_default();
            let slope = power(u, degree.saturating_sub(1));
            (power(u, degree), slope * Scaled::from_f64(degree as f64))
        };
        let each = |f: &dyn Fn(Jet) -> Jet| [ab.clone(), aa.clone(), bb.clone()].map(f);
        match operation {
            Operation::Sum | Operation::Product => {
                let mut others = jets_of(&parts[1]).into_iter();
                [ab, aa, bb].map(|u| {
                    let Some(v) = others.next() else { return u };
                    let (x, y) = (u.value, v.value);
                    if operation == Operation::Sum {
                        u.with(&v, x + y, |du, dv| du + dv)
                    } else {
                        u.with(&v, x * y, |du, dv| du * y + x * dv)
                    }
                })
            }
            Operation::Scaled(factor) => each(&|u| {
                let (value, factor) = (u.value, Scaled::from_f64(factor));
                by(u.chain(value * factor, factor), value)
            }),
            Operation::Power(degree) => each(&|u| {
                let (value, slope) = to_the(u.value, degree);
                u.chain(value, slope)
            }),
            Operation::Polynomial { degree, coef0 } => each(&|u| {
                let (value, slope) = to_the(u.value + Scaled::from_f64(coef0), degree);
                by(u.chain(value, slope), slope)
            }),
            Operation::Normalized => {
                // Constant whatever the parameters, so their derivatives are 0.
                let selfs = [&aa, &bb].map(|self_jet| {
                    let is_some = !self_jet.value.is_zero();
                    self_jet.clone().constant(f64::from(u8::from(is_some)))
                });
                let [own_a, own_b] = selfs;
                let (a, b, u) = (aa.value, bb.value, ab.value);
                let mut out = ab;
                for ((slope, da), db) in
                    out.slopes.iter_mut().zip(&aa.slopes).zip(&bb.slopes)
                {
                    // dA / A + dB / B, as in the module's formula of normalised
                    // kernels.
                    let both = da.cosine(a, a) + db.cosine(b, b);
                    *slope = Scaled::from_f64(
                        slope.cosine(a, b) - 0.5 * u.cosine(a, b) * both,
                    );
                }
                out.value = Scaled::from_f64(u.normalized(a, b));
                [out, own_a, own_b]
            }
            Operation::Gaussian(gamma) => {
                let minus_two = Scaled::from_f64(-2.0);
                let square = aa.value + bb.value + ab.value * minus_two;
                let square = square.value().max(0.0);
                let value = Scaled::from_f64((-gamma * square).exp());
                let factor = Scaled::from_f64(-gamma) * value;
                let selfs = [&aa, &bb].map(|self_jet| self_jet.clone().constant(1.0));
                let [own_a, own_b] = selfs;
                let mut out = ab;
                for ((slope, da), db) in
                    out.slopes.iter_mut().zip(&aa.slopes).zip(&bb.slopes)
                {
                    *slope = (*da + *db + *slope * minus_two) * factor;
                }
                out.value = value;
                // Where the value is 0, it stays so.
                let by_gamma = if value.is_zero() { 0.0 } else { -square };
                [by(out, Scaled::from_f64(by_gamma) * value), own_a, own_b]
            }
        }
    }
}

impl Sloped for Slopes {
    fn worker(&self) -> SlopesWorker<'_> {
        let workers = self.leaves.iter().map(|leaf| leaf.worker());
        let mut workers: Vec<_> = workers.collect(); // bounded: a kernel's parts
        // By tree: the leaves' kernels with itself, in a row for many pairs.
        let mut selfs_by_tree: Map<usize, Vec<(Scaled, Vec<Scaled>)>> = Map::default();
        Box::new(move |a, b, slopes, context| {
            let mut values_of = |a, b| {
                let values = workers.iter_mut().zip(&self.distinct).map(
                    |(kernel_of, kernel)| {
                        let mut leaf_slopes = memory::filled(
                            Scaled::from_f64(0.0),
                            kernel.parameters().len(),
                        )?;
                        Ok((kernel_of(a, b, &mut leaf_slopes, context)?, leaf_slopes))
                    },
                );
                memory::try_collect(values)
            };
            // Kernels of each tree with itself, once for many pairs.
            for tree in [a, b] {
                if !selfs_by_tree.contains_key(&tree) {
                    selfs_by_tree.insert(tree, values_of(tree, tree)?)?;
                }
            }
            let is_same = self.roots[a] == self.roots[b];
            let both =
                if is_same { selfs_by_tree[&a].clone() } else { values_of(a, b)? };
            let selfs = selfs_by_tree[&a].iter().zip(&selfs_by_tree[&b]);
            let leaves = (both.into_iter().zip(selfs))
                .map(|(ab, (aa, bb))| [ab, aa.clone(), bb.clone()]);
            let leaves = memory::collect(leaves)?;
            // There is one: it was read with the leaves.
            let Some(formula) = &self.formula else { return Ok(Scaled::from_f64(0.0)) };
            let [ab, aa, _] = formula.jets(&leaves, self.width);
            let jet = if is_same { aa } else { ab };
            slopes.iter_mut().zip(jet.slopes).for_each(|(to, slope)| *to = slope);
            Ok(jet.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ElasticTree, SubsetTree};

    fn sst() -> Arc<dyn Kernel> {
        Arc::new(SubsetTree::new(0.4))
    }

    fn of(operation: Operation, parts: &[Arc<dyn Kernel>]) -> Arc<dyn Kernel> {
        Arc::new(Composed::new(operation, parts.to_vec()).unwrap())
    }

    #[test]
    fn a_kernel_that_stands_twice_is_computed_once() {
        let other: Arc<dyn Kernel> = Arc::new(ElasticTree::new(0.4));
        let product = of(Operation::Product, &[sst(), other]);
        let sum = of(Operation::Sum, &[sst(), product]);
        let plan = Plan::new(sum.composed().unwrap());
        assert_eq!((plan.leaves.len(), plan.depth, plan.n_norms), (2, 3, 0));
        let steps = [Step::Leaf(0), Step::Leaf(0), Step::Leaf(1)];
        assert_eq!(plan.steps[..3], steps);
        assert_eq!(plan.steps[3..], [Step::Multiply, Step::Add]);
    }

    #[test]
    fn compositions_are_equal_if_operations_numbers_and_parts_are() {
        let twice = |factor| of(Operation::Scaled(factor), &[sst()]);
        assert!(*twice(2.0) == *twice(2.0) && *twice(2.0) != *twice(3.0));
        let other: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.3));
        assert!(
            *of(Operation::Normalized, &[other])
                != *of(Operation::Normalized, &[sst()])
        );
    }

    #[test]
    fn what_grows_beyond_all_measure_is_refused() {
        let mut kernel = sst();
        for _ in 0..7 {
            kernel = of(Operation::Product, &[Arc::clone(&kernel), kernel]);
        }
        let parts = vec![Arc::clone(&kernel), kernel];
        assert!(Composed::new(Operation::Product, parts).is_err());
        assert!(Composed::new(Operation::Sum, vec![sst()]).is_err());
        assert!(Composed::by_name("Quotient", vec![sst()]).is_err());
    }
}
