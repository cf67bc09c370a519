//! Machines in training.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::dag::{Poly, PyFeatures, floats, item, options, polynomial};
use super::kernel::Kernel;
use super::objects::{forest_of, unsigned};
use super::shared::{self, Shared};
use super::text::Text;
use super::{Request, detached};
use crate::dag::solve::{Intercept, Limits, Loss, Problem, Solver as Core, State};
use crate::error::quoted;
use crate::memory;

/// A machine in training.
#[pyclass(frozen, module = "treekernel_rs._core", name = "Solver")]
pub(super) struct Solver(Shared<Core>);

impl shared::Object for Core {
    /// Without feature vectors: targets, costs, and two states.
    fn copy_nbytes(&self) -> usize {
        32 * self.state().betas.len()
    }
}

type Floats<'py> = PyReadonlyArray1<'py, f64>;

#[pymethods]
impl Solver {
    /// `number` is the loss's own; `intercept` None for a free one, else the feature's value;
    /// `vectors` their kernel, the trees' share beside it, and the vectors.
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (
        kernel, normalize, x, loss, number, intercept, targets, costs, n_outputs,
        preferences, vectors, seed
    ))]
    fn new(
        kernel: &Kernel,
        normalize: bool,
        x: &Bound<'_, PyAny>,
        loss: Text,
        number: f64,
        intercept: Option<f64>,
        targets: Floats<'_>,
        costs: Floats<'_>,
        n_outputs: i128,
        preferences: Option<&Bound<'_, PyAny>>,
        vectors: Option<(Poly, f64, PyFeatures<'_>)>,
        seed: u64,
    ) -> PyResult<Self> {
        let (py, x) = (x.py(), forest_of(x)?);
        let intercept = match intercept {
            // A feature of 0 would leave every score as it is.
            None => Intercept::Free,
            Some(0.0) => Intercept::None,
            Some(value) => Intercept::Feature(value),
        };
        let preferences = preferences
            .map(|pairs| unsigned::<u32>("preferences", pairs))
            .transpose()?
            // Pairs come flat, one after another.
            .map(|flat| memory::copied(flat.as_chunks::<2>().0))
            .transpose()?;
        let problem = Problem {
            loss: loss_of(&loss, number)?,
            intercept,
            n_outputs: options(normalize, n_outputs)?.n_outputs,
            targets: memory::copied(targets.as_slice()?)?,
            costs: memory::copied(costs.as_slice()?)?,
            preferences,
        };
        let kernel = kernel.shared();
        let core = detached(py, || Core::new(kernel, normalize, &x, problem, seed))?;
        let core = match &vectors {
            Some((kernel, mix, given)) => {
                core.with_vectors(polynomial(*kernel), *mix, given.features()?)?
            }
            None => core,
        };
        Ok(Self(Shared::new(core)))
    }

    /// Scores, tree after tree.
    #[pyo3(signature = (x, features, n_jobs, progress))]
    fn score<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        features: Option<PyFeatures<'py>>,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (py, x) = (x.py(), forest_of(x)?);
        let features = features.as_ref().map(PyFeatures::features).transpose()?;
        let scores =
            self.0.read(py, &Request::new(n_jobs, progress), |core, context| {
                core.score_with(&x, features, context)
            })?;
        Ok(scores.into_pyarray(py))
    }

    /// Goes on; returns whether the violation is at most `tol`.
    #[pyo3(signature = (tol, max_iter, cache, n_jobs, progress))]
    fn run(
        &self,
        py: Python<'_>,
        tol: f64,
        max_iter: u64,
        cache: usize,
        n_jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let limits = Limits { tol, max_iter, cache };
        self.0.change(py, &Request::new(n_jobs, progress), |core, context| {
            core.run_with(limits, context)
        })
    }

    /// The weights of all trees, by output.
    fn dual_coef<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let read = Core::dual_coef;
        Ok(self.0.read(py, &Request::default(), |core, _| read(core))?.into_pyarray(py))
    }

    /// What passes go on from; or what they have reached by now.
    fn state<'py>(
        &self,
        py: Python<'py>,
        reached: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let read = |core: &Core| {
            let state = if reached { core.reached() } else { core.state() };
            state.copied()
        };
        let state = self.0.read(py, &Request::default(), |core, _| read(core))?;
        let dict = PyDict::new(py);
        let active = memory::collect(state.active.into_iter().map(i64::from))?;
        dict.set_item("betas", state.betas.into_pyarray(py))?;
        dict.set_item("intercept", state.intercept.into_pyarray(py))?;
        dict.set_item("active", active.into_pyarray(py))?;
        dict.set_item("since", state.since)?;
        dict.set_item("is_settled", state.is_settled)?;
        dict.set_item("n_iter", state.n_iter)?;
        dict.set_item("violation", state.violation)?;
        dict.set_item("primal", state.primal.into_pyarray(py))?;
        dict.set_item("gap", state.gap.into_pyarray(py))?;
        dict.set_item("best", state.best)?;
        dict.set_item("idle", state.idle)?;
        Ok(dict)
    }

    fn set_state(&self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = state.py();
        let new = State {
            betas: floats(state, "betas")?,
            intercept: floats(state, "intercept")?,
            active: unsigned("active", &item(state, "active")?)?,
            since: item(state, "since")?.extract()?,
            is_settled: item(state, "is_settled")?.extract()?,
            n_iter: item(state, "n_iter")?.extract()?,
            violation: item(state, "violation")?.extract()?,
            primal: floats(state, "primal")?,
            gap: floats(state, "gap")?,
            best: item(state, "best")?.extract()?,
            idle: item(state, "idle")?.extract()?,
        };
        // Cloned, as a change may be stopped for other calls and is called again.
        self.0.change(py, &Request::default(), |core, _| core.set_state(new.clone()))
    }
}

fn loss_of(loss: &str, number: f64) -> PyResult<Loss> {
    Ok(match loss {
        "hinge" => Loss::Hinge,
        "squared_hinge" => Loss::SquaredHinge,
        "logistic" => Loss::Logistic,
        "epsilon_insensitive" => Loss::Epsilon(number),
        "squared_epsilon_insensitive" => Loss::SquaredEpsilon(number),
        "one_class" => Loss::OneClass(number),
        got => {
            return Err(PyValueError::new_err(format!(
                "loss must be 'hinge', 'squared_hinge', 'logistic', \
                 'epsilon_insensitive', 'squared_epsilon_insensitive' or 'one_class', \
                 got {}",
                quoted(got)
            )));
        }
    })
}
