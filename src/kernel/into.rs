//! Kernels that are handed over.

use std::sync::Arc;

use super::Kernel;

/// A kernel that an object keeps, such as a model: `&` of any kernel that can be cloned, or
/// one that is shared. Kernels of your own are equal if they are one object, so share yours
/// where that matters.
///
/// ```
/// use std::sync::Arc;
/// use treekernel_rs::dag::{Model, ModelOptions};
/// use treekernel_rs::kernel::{Kernel, SubsetTree};
///
/// let model = Model::new(&SubsetTree::new(0.4), ModelOptions::default())?;
/// let shared: Arc<dyn Kernel> = Arc::new(SubsetTree::new(0.4));
/// let again = Model::new(&shared, ModelOptions::default())?;
/// assert!(model.kernel() == again.kernel());
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
pub trait IntoKernel {
    /// The kernel as what can be kept.
    fn into_kernel(self) -> Arc<dyn Kernel>;
}

impl<K: Kernel + Clone> IntoKernel for &K {
    fn into_kernel(self) -> Arc<dyn Kernel> {
        Arc::new(self.clone())
    }
}

impl IntoKernel for &Arc<dyn Kernel> {
    fn into_kernel(self) -> Arc<dyn Kernel> {
        Arc::clone(self)
    }
}

impl IntoKernel for Arc<dyn Kernel> {
    fn into_kernel(self) -> Arc<dyn Kernel> {
        self
    }
}
