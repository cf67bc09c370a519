//! Tree kernels: parameters, definitions and single pairs.
//!
//! A tree kernel counts the fragments that two trees share, each weighted by its size.
//! Which parts of a tree are its fragments tells the kernels apart:
//!
//! | kernel | a fragment is | weight of a pair |
//! |---|---|---|
//! | [`Subtree`] | a node with all below it | λ per inner node |
//! | [`SubsetTree`] | a connected part; each node with all its children or none | λ per production |
//! | [`PartialTree`] | any connected part; children may be left out | μ per node, λ per gap |
//! | [`SmoothedPartialTree`] | the same; labels match by similarity | the same, times σ per node |
//! | [`ElasticTree`] | nodes in the tree's order; nodes may be left out | λ per node |
//! | [`Subpath`] | the labels from a node down to one below it | λ per node |
//!
//! [`Composed`] makes sums, products and other functions of kernels.
//! [`naive`] transcribes the definitions; [`crate::gram`] computes whole matrices.
//!
//! # A kernel of one's own
//!
//! A kernel is a struct with its parameters that implements [`Kernel`], in this crate or
//! another. Its name, parameters, definition and single pairs are all that matrices, rows
//! and diagonals need, with threads, normalisation and all other options.
//!
//! ```
//! use std::sync::Arc;
//! use treekernel_rs::kernel::{self, Kernel, Number, Parameter, Prepared, Range};
//! use treekernel_rs::{Context, Forest, NodeId, Nodes, Result, gram};
//!
//! /// `weight` for two trees whose roots have equal labels.
//! #[derive(Debug)]
//! struct RootLabel {
//!     weight: f64,
//! }
//!
//! impl Kernel for RootLabel {
//!     fn name(&self) -> &'static str {
//!         "RootLabel"
//!     }
//!
//!     fn parameters(&self) -> Vec<Parameter> {
//!         vec![Parameter::new("weight", self.weight, Range::NotNegative)]
//!     }
//!
//!     fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
//!         if nodes.name(a) == nodes.name(b) { self.weight } else { 0.0 }
//!     }
//!
//!     fn pairs(
//!         &self,
//!         nodes: &Arc<Nodes>,
//!         roots: &[NodeId],
//!         _: &Context,
//!     ) -> Result<Box<dyn Prepared>> {
//!         let labels = roots.iter().map(|&root| nodes.label(root)).collect();
//!         Ok(Box::new(Labels { labels, weight: self.weight }))
//!     }
//! }
//!
//! struct Labels {
//!     labels: Vec<treekernel_rs::Label>,
//!     weight: f64,
//! }
//!
//! impl kernel::Pairs for Labels {
//!     type Scratch<N: Number> = ();
//!
//!     fn pair<N: Number>(
//!         &self,
//!         a: usize,
//!         b: usize,
//!         (): &mut (),
//!         _: &Context,
//!     ) -> Result<N> {
//!         let equal = self.labels[a] == self.labels[b];
//!         Ok(N::from_f64(if equal { self.weight } else { 0.0 }))
//!     }
//! }
//!
//! let forest = Forest::from_brackets("(S (A a)) (S b) (A a)")?;
//! let matrix = gram::gram(&RootLabel { weight: 2.0 }, &forest, None, gram::Options::default())?;
//! assert_eq!(matrix.row(0).to_vec(), [2.0, 2.0, 0.0]);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```

mod builtin;
pub(crate) mod composed;
pub(crate) mod elastic;
mod into;
pub mod naive;
mod number;
mod parameter;
pub(crate) mod partial;
pub(crate) mod similarity;
pub(crate) mod smoothed;
mod subpath;
pub(crate) mod subset;
pub(crate) mod subtree;
mod tree_counts;
pub(crate) mod weights;

use std::any::Any;
use std::fmt::Debug;
use std::ptr;
use std::sync::Arc;

use crate::Forest;
#[cfg(test)]
pub(crate) use crate::corpus as sample;
use crate::gram::Measure;
use crate::index::family::Family;
pub(crate) use crate::{Context, Error, NodeId, Nodes, Result};
pub(crate) use builtin::{Builtin, Rule, Sketch};
pub use composed::{Composed, Operation};
pub use elastic::ElasticTree;
pub use into::IntoKernel;
pub(crate) use number::Dual;
pub use number::{MAX_SLOPES, Number, Scaled, Slopes};
pub use parameter::{Parameter, Range, Value};
pub(crate) use parameter::{described, kernel_struct};
pub use partial::PartialTree;
pub use similarity::{
    Cosines, Equality, LabelPairs, Similarity, SimilarityRow, SimilarityTable,
};
pub use smoothed::SmoothedPartialTree;
pub use subpath::Subpath;
pub use subset::SubsetTree;
pub use subtree::Subtree;
pub(crate) use tree_counts::TreeCounts;
pub use weights::{Counts, Weighted, Weights};

/// Every kernel of this crate, at its defaults: the one list of them. ([`SmoothedPartialTree`]
/// is [`PartialTree`], unless it is given a similarity.)
pub fn builtin_kernels() -> Vec<Arc<dyn Kernel>> {
    // bounded: the kernels of this crate
    vec![
        Arc::new(Subtree::default()),
        Arc::new(SubsetTree::default()),
        Arc::new(PartialTree::default()),
        Arc::new(ElasticTree::default()),
        Arc::new(Subpath::default()),
    ]
}

/// The kernel of this crate with a [name](Kernel::name), at its defaults.
///
/// # Errors
/// [`Error::Parameter`] for any other name.
pub fn by_name(name: &str) -> Result<Arc<dyn Kernel>> {
    let has_name = |kernel: &Arc<dyn Kernel>| kernel.name() == name;
    let expected = "the name of one of the kernels";
    builtin_kernels()
        .into_iter()
        .find(has_name)
        .ok_or_else(|| parameter("kernel", expected, &name))
}

/// A tree kernel with its parameters. See the [module](self) for one of your own.
///
/// Parameters are checked when a kernel is used, not when it is made. Normalisation is
/// the caller's: see [`crate::gram::Options`]. Two kernels of your own are equal if they are
/// one object: to have it computed once, give all places a clone of one [`Arc`].
///
/// Every kernel is a [`Measure`] of trees by itself: nothing has to be done for that.
pub trait Kernel: Measure<Forest> + Any + Debug + Send + Sync {
    /// What the kernel is called: the name of its struct.
    fn name(&self) -> &'static str;

    /// The parameters with their ranges, in order.
    fn parameters(&self) -> Vec<Parameter>;

    /// The same kernel with another value of one parameter, in its range or not; None
    /// where it has no parameter of this name and type.
    fn with(&self, _name: &str, _value: Value) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// K(a, b) as the definition has it: slow, obvious, and what all else is held to. Trees
    /// are small and not deep.
    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64;

    /// Makes trees ready for the kernels of single pairs. Parameters are in their ranges.
    /// `context` is asked now and then where that takes long.
    ///
    /// # Errors
    /// [`Error::Capacity`], and what `context` returns.
    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>>;

    /// As [`pairs`](Self::pairs), for kernels with their derivatives by the real parameters;
    /// None where these are not known. All [`Pairs`] will do in which parameters come in as
    /// [`Number::parameter`] and [`Number::depending`] have it.
    ///
    /// # Errors
    /// As [`pairs`](Self::pairs), and [`Error::Parameter`] for parameters at which there is
    /// no derivative.
    fn sloped(
        &self,
        _nodes: &Arc<Nodes>,
        _roots: &[NodeId],
        _context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        Ok(None)
    }

    /// What this crate knows of its own kernels. Other crates leave it as it is.
    #[doc(hidden)]
    fn builtin(&self) -> Option<Builtin<'_>> {
        None
    }
}

/// See [`Measure::check`].
pub(crate) fn check(kernel: &dyn Kernel) -> Result<()> {
    kernel.parameters().iter().try_for_each(Parameter::check)?;
    let parts = kernel.composed().map_or(&[][..], Composed::parts);
    parts.iter().try_for_each(|part| check(&**part))
}

impl dyn Kernel {
    /// The composition that it is, if it is one.
    pub fn composed(&self) -> Option<&Composed> {
        self.builtin()?.composed
    }

    /// See [`Builtin::index`].
    pub(crate) fn index(&self) -> Option<Box<dyn Family>> {
        self.builtin()?.index
    }

    /// The kernel to be kept, where it is one of this crate.
    pub(crate) fn shared(&self) -> Option<Arc<dyn Kernel>> {
        Some(self.builtin()?.shared())
    }

    /// See [`Builtin::sketch`].
    pub(crate) fn sketch(&self) -> Option<Sketch> {
        self.builtin()?.sketch
    }

    /// See [`Builtin::weightable`].
    pub(crate) fn weightable(&self) -> Option<&dyn weights::Weightable> {
        self.builtin()?.weightable
    }

    /// A capability of a kernel whose parameters are in range.
    ///
    /// # Errors
    /// [`Error::Parameter`]; [`Error::Unsupported`] where the kernel does not have it, with the
    /// kernels that do.
    pub(crate) fn require<T>(
        &self,
        what: &'static str,
        capability: impl Fn(&Self) -> Option<T>,
    ) -> Result<T> {
        self.check()?;
        let has = |kernel: &Self| capability(kernel).is_some();
        capability(self).ok_or_else(|| self.unsupported(what, has))
    }

    /// The error of a kernel that lacks what others have.
    pub(crate) fn unsupported(
        &self,
        what: &'static str,
        has: impl Fn(&Self) -> bool,
    ) -> Error {
        let can = builtin_kernels().into_iter().filter(|kernel| has(&**kernel));
        let can = can.map(|kernel| kernel.name()).collect(); // bounded: as many as there are
        Error::Unsupported { kernel: self.name(), what, can }
    }
}

/// Kernels of this crate are equal if their types and fields are, similarities by identity.
/// A kernel of another crate is equal to itself only: its name and parameters need not be
/// all that it is made of.
impl PartialEq for dyn Kernel {
    fn eq(&self, other: &Self) -> bool {
        match self.builtin() {
            Some(builtin) => builtin.equals(other),
            // The type as well: a struct and its first field have one address.
            None => self.type_id() == other.type_id() && ptr::addr_eq(self, other),
        }
    }
}

/// Evaluates single pairs for one worker: takes the numbers of two trees, and asks now and
/// then whether to go on.
pub type Worker<'a> =
    Box<dyn FnMut(usize, usize, &Context) -> Result<Scaled> + Send + 'a>;

/// Trees made ready for the kernels of single pairs.
///
/// Whatever implements [`Pairs`] is one. Without it, `worker` returns a closure that gives
/// `Scaled::from_f64(value)`, or an error of the context, which it calls now and then where a pair
/// takes long.
pub trait Prepared: Send + Sync {
    /// What one worker calls for many pairs; it may keep what it needs from call to call.
    fn worker(&self) -> Worker<'_>;

    /// Whether this kernel of a tree with itself shows that the kernel is no dot product, so
    /// that nothing can be normalised by it.
    fn is_indefinite(&self, _self_kernel: Scaled) -> bool {
        false
    }

    /// The largest normalised value: 1 for a dot product.
    fn most(&self) -> f64 {
        1.0
    }
}

/// Self-kernels from here on, or below [`SMALLEST`], are handled as [`Scaled`].
pub(crate) const LARGEST: f64 = 1e300;
/// What is at least so much loses nothing to the end of floats, nor do terms of it that are
/// some powers of ten less.
pub(crate) const SMALLEST: f64 = 1e-280;

impl<P: Pairs + Send> Prepared for P {
    fn worker(&self) -> Worker<'_> {
        let mut floats = P::Scratch::<f64>::default();
        let mut scaled = P::Scratch::<Scaled>::default();
        let has_tiny_values = self.has_tiny_values();
        Box::new(move |a, b, context| {
            // Most values fit floats, so these are tried first.
            if !has_tiny_values {
                let float = self.pair(a, b, &mut floats, context)?;
                if float.abs() < LARGEST {
                    return Ok(Scaled::from_f64(float));
                }
            }
            self.pair(a, b, &mut scaled, context)
        })
    }

    fn is_indefinite(&self, self_kernel: Scaled) -> bool {
        Pairs::is_indefinite(self, self_kernel)
    }

    fn most(&self) -> f64 {
        Pairs::most(self)
    }
}

/// Evaluates single pairs with their derivatives for one worker: takes the numbers of two
/// trees, and writes as many derivatives as it is given places for.
pub type SlopesWorker<'a> =
    Box<dyn FnMut(usize, usize, &mut [Scaled], &Context) -> Result<Scaled> + Send + 'a>;

/// Trees made ready for the kernels of single pairs and their derivatives by the kernel's
/// real parameters. Whatever implements [`Pairs`] is one.
pub trait Sloped: Send + Sync {
    /// What one worker calls for many pairs; it may keep what it needs from call to call.
    fn worker(&self) -> SlopesWorker<'_>;
}

impl<P: Pairs + Send> Sloped for P {
    fn worker(&self) -> SlopesWorker<'_> {
        let mut floats = P::Scratch::<Dual<f64>>::default();
        let mut scaled = P::Scratch::<Dual<Scaled>>::default();
        let has_tiny_values = self.has_tiny_values();
        let fits = |number: f64| number.abs() < LARGEST;
        Box::new(move |a, b, slopes, context| {
            let mut in_floats = None;
            // Derivatives may leave the floats where the value does not.
            if !has_tiny_values {
                let float = self.pair(a, b, &mut floats, context)?;
                in_floats = Some(float).filter(|Dual { value, slopes }| {
                    fits(*value) && slopes.iter().copied().all(fits)
                });
            }
            let dual = match in_floats {
                Some(Dual { value, slopes }) => Dual {
                    value: Scaled::from_f64(value),
                    slopes: slopes.map(Scaled::from_f64),
                },
                None => self.pair(a, b, &mut scaled, context)?,
            };
            slopes.iter_mut().zip(dual.slopes).for_each(|(to, slope)| *to = slope);
            Ok(dual.value)
        })
    }
}

/// Trees made ready for single pairs in any [`Number`]: each evaluation is one call, and
/// allocates nothing once its scratch has grown. Values beyond floats then come by
/// themselves.
pub trait Pairs: Sync {
    /// What is kept from call to call, of one and the same value of this type.
    type Scratch<N: Number>: Default + Send;

    /// K of the trees with these numbers. `context` is asked now and then; its error ends
    /// the call, and the scratch stays good for the next.
    ///
    /// # Errors
    /// What `context` returns.
    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Self::Scratch<N>,
        context: &Context,
    ) -> Result<N>;

    /// Whether what the smallest fragments weigh is too small for floats (below 1e-280):
    /// then all pairs are computed in numbers for which it is not.
    fn has_tiny_values(&self) -> bool {
        false
    }

    /// See [`Prepared::is_indefinite`].
    fn is_indefinite(&self, _self_kernel: Scaled) -> bool {
        false
    }

    /// See [`Prepared::most`].
    fn most(&self) -> f64 {
        1.0
    }
}

pub(crate) fn parameter(
    name: &'static str,
    expected: &'static str,
    got: &impl ToString,
) -> Error {
    Error::Parameter { name, expected, got: got.to_string() }
}
