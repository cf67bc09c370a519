"""Kernel machines without the matrix, against scikit-learn on the matrix.

A matrix K has an explicit factor L with L L^T = K, on which scikit-learn's linear machines
have the same problem: its objectives and decisions are the measure.
"""

from __future__ import annotations

import pickle
import warnings

import joblib
import numpy as np
import pytest
from dag_oracle import mistakes

import treekernel_rs as tk

pytest.importorskip("sklearn")
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import aslinearoperator, cg, eigsh
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM

from treekernel_rs import estimators as est
from treekernel_rs.estimators import _ranking, _svm

RNG = np.random.default_rng(0)


def tree(depth: int) -> str:
    if depth == 0 or RNG.random() < 0.2:
        return f"({RNG.choice(list('AB'))} {RNG.choice(list('xyz'))})"
    below = " ".join(tree(depth - 1) for _ in range(RNG.integers(1, 4)))
    return f"({RNG.choice(list('SN'))} {below})"


N = 120
X = tk.Forest.from_brackets([tree(3) for _ in range(N)])
Y = np.where(RNG.random(N) < 0.4, 1.0, -1.0)
T = RNG.normal(size=N)
THREE = RNG.integers(0, 3, N)
WEIGHTS = RNG.random(N) * 2
WEIGHTS[::17] = 0.0
SST = tk.SubsetTreeKernel(0.4, normalize=True)
KERNELS = {
    repr(k): k.replace(normalize=normalize)
    for k in (
        tk.SubtreeKernel(0.5),
        tk.SubsetTreeKernel(0.4),
        tk.PartialTreeKernel(0.3),
        tk.ElasticTreeKernel(0.3),
        tk.SubtreeKernel(0.5, leaf_weight=0.3, weights={"S": 0.5, "A": 1.5}),
        tk.SubsetTreeKernel(0.4, leaf_weight=0.4) + 0.5 * tk.PartialTreeKernel(0.3),
    )
    for normalize in (False, True)
    for k in [k.replace(normalize=normalize)]
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
PLAIN = {
    name: k for name, k in KERNELS.items() if "weights" not in name and "+" not in name
}
every_plain_kernel = pytest.mark.parametrize("kernel", PLAIN.values(), ids=PLAIN)
#: A batch of all trees, and batches of 64.
batches = pytest.mark.parametrize(
    "cache",
    [
        pytest.param(200, marks=pytest.mark.slow, id="whole"),
        pytest.param(1e-6, id="batches"),
    ],
)


def factor(kernel: tk.SubsetTreeKernel) -> np.ndarray:
    return root(kernel.gram(X))


def root(K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-11 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


def price(kernel: tk.SubsetTreeKernel) -> float:
    return 1.0 if kernel.normalize else 0.01


LOSSES = {
    "hinge": lambda s: np.maximum(0, 1 - Y * s),
    "squared_hinge": lambda s: np.maximum(0, 1 - Y * s) ** 2,
    "logistic": lambda s: np.logaddexp(0, -Y * s),
    "epsilon_insensitive": lambda s: np.maximum(0, np.abs(T - s) - 0.1),
    "squared_epsilon_insensitive": lambda s: np.maximum(0, np.abs(T - s) - 0.1) ** 2,
}


def linear(loss: str, C: float, scaling: float) -> object:
    often = {"max_iter": 1_000_000, "tol": 1e-9, "intercept_scaling": scaling}
    if loss == "logistic":
        return LogisticRegression(C=C, solver="liblinear", **often)
    if "hinge" in loss:
        return LinearSVC(C=C, loss=loss, random_state=0, dual=True, **often)
    return LinearSVR(C=C, loss=loss, epsilon=0.1, random_state=0, dual=True, **often)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES)
@every_kernel
def test_objectives_are_those_of_linear_machines_on_a_factor(kernel, loss):
    C, scaling, L = price(kernel), 2.0, factor(kernel)
    y = Y if "epsilon" not in loss else T
    theirs = linear(loss, C, scaling).fit(L, y, sample_weight=WEIGHTS)
    w, b = np.ravel(theirs.coef_), float(np.ravel(theirs.intercept_)[0])
    paid = C * (WEIGHTS * LOSSES[loss](L @ w + b)).sum()
    objective = 0.5 * (w @ w + (b / scaling) ** 2) + paid
    for cache in (200, 1e-6):
        machine = tk.solve.KernelMachine(
            kernel,
            X,
            y,
            loss=loss,
            C=C * WEIGHTS,
            intercept="feature",
            intercept_scaling=scaling,
        )
        assert machine.run(tol=1e-7, cache_size=cache)
        assert machine.objective[0] == pytest.approx(objective, rel=1e-6)
        assert -1e-12 <= machine.dual_gap[0] / objective <= 1e-4
        scores = machine.model().decision_function(X)
        np.testing.assert_allclose(scores, L @ w + b, atol=1e-4)
        assert machine.objective[0] == pytest.approx(
            0.5 * (machine.dual_coef @ (scores - machine.intercept))
            + 0.5 * (machine.intercept[0] / scaling) ** 2
            + C * (WEIGHTS * LOSSES[loss](scores)).sum(),
            rel=1e-9,
        )


@batches
@every_kernel
def test_free_intercepts_are_those_of_libsvm(kernel, cache):
    # SVC goes wrong with a matrix and a weight of 0.
    K, C, weights = kernel.gram(X), price(kernel), WEIGHTS + 0.1
    exact = {"kernel": "precomputed", "tol": 1e-8}
    pairs = [
        (SVC(C=C, **exact).fit(K, Y, weights), {"y": Y, "C": C * weights}),
        (
            SVR(C=C, epsilon=0.1, **exact).fit(K, T, weights),
            {"y": T, "C": C * weights, "loss": "epsilon_insensitive"},
        ),
        (
            OneClassSVM(nu=0.305, **exact).fit(K),
            {"loss": "one_class", "nu": 0.305},
        ),
    ]
    for theirs, parameters in pairs:
        machine = tk.solve.KernelMachine(kernel, X, **parameters)
        assert machine.run(tol=1e-6, cache_size=cache)
        if hasattr(theirs, "decision_function"):
            decisions = theirs.decision_function(K)
        else:
            decisions = theirs.predict(K)
        np.testing.assert_allclose(
            machine.model().decision_function(X), decisions, atol=1e-4
        )
        assert machine.dual_gap[0] >= -1e-9 * abs(machine.objective[0])
        dual = np.zeros(N)
        dual[theirs.support_] = theirs.dual_coef_.ravel()
        norm = 0.5 * dual @ K @ dual
        if "nu" in parameters:
            b = theirs.intercept_[0]
            paid = np.maximum(0, -decisions).sum() + 0.305 * N * b
        elif "loss" in parameters:
            paid = parameters["C"] @ np.maximum(0, np.abs(T - decisions) - 0.1)
        else:
            paid = parameters["C"] @ np.maximum(0, 1 - Y * decisions)
        assert machine.objective[0] == pytest.approx(norm + paid, rel=1e-6)


NUMBERS = RNG.normal(size=(N, 6)) * (RNG.random((N, 6)) < 0.5)


def test_one_batch_with_vectors_is_solved_in_one_pass():
    """All examples are in one batch, whose matrix is then the problem's."""
    trees = [f"(S (A a{i % 7}) (B b{i % 5}))" for i in range(40)]
    y = np.where(np.random.default_rng(0).random(40) < 0.5, 1.0, -1.0)
    numbers = np.random.default_rng(1).normal(size=(40, 3))
    machine = tk.solve.KernelMachine(
        SST.replace(normalize=True),
        trees,
        y,
        X_vec=numbers,
        vectors=tk.kernels.VectorPolynomial(3),
        mix=0.7,
    )
    assert machine.run()
    assert machine.n_iter == 1


@batches
@pytest.mark.parametrize(
    "vectors", [NUMBERS, csr_matrix(NUMBERS)], ids=["dense", "csr"]
)
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_beside_trees_are_a_mixture_of_matrices(vectors, normalize, cache):
    kernel, cubic = (
        SST.replace(normalize=normalize),
        tk.kernels.VectorPolynomial(3, gamma=0.5),
    )
    beside = {"X_vec": vectors, "vectors": cubic, "mix": 0.7}
    C = price(kernel)
    K = 0.7 * kernel.gram(X) + 0.3 * (0.5 * NUMBERS @ NUMBERS.T + 1) ** 3
    L = root(K)
    for loss in LOSSES:
        y = Y if "epsilon" not in loss else T
        machine = tk.solve.KernelMachine(
            kernel, X, y, loss=loss, C=C, intercept="feature", **beside
        )
        assert machine.run(tol=1e-7, cache_size=cache)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = linear(loss, C, 1.0).fit(L, y)
        w, b = theirs.coef_.ravel(), float(np.ravel(theirs.intercept_)[0])
        objective = 0.5 * (w @ w + b * b) + C * LOSSES[loss](L @ w + b).sum()
        assert machine.objective[0] == pytest.approx(objective, rel=1e-6)
        assert -1e-12 <= machine.dual_gap[0] / objective <= 1e-4
        scores = machine.decision_function(X, vectors)
        np.testing.assert_allclose(scores, L @ w + b, atol=1e-4)
        # The model is the trees' part.
        numbers = (K - 0.7 * kernel.gram(X)) @ machine.dual_coef
        np.testing.assert_allclose(
            machine.model().decision_function(X) + numbers, scores
        )
    pairs = np.column_stack([np.arange(N - 1), np.arange(1, N)])
    ranker = tk.solve.KernelMachine(
        kernel, X, preferences=pairs, intercept="none", C=C, **beside
    )
    assert ranker.run(tol=1e-6, cache_size=cache)
    np.testing.assert_allclose(
        ranker.decision_function(X, vectors), K @ ranker.dual_coef
    )


def test_machines_with_vectors_are_stopped_pickled_and_threaded_as_others():
    targets = np.column_stack([Y, -Y])
    beside = {"X_vec": NUMBERS, "vectors": tk.kernels.VectorPolynomial(2), "mix": 0.5}
    found = []
    for n_jobs in (1, 3):
        machine = tk.solve.KernelMachine(SST, X, targets, **beside)
        assert not machine.run(tol=1e-5, cache_size=1e-6, n_jobs=n_jobs, max_iter=2)
        machine = pickle.loads(pickle.dumps(machine))
        assert machine.run(tol=1e-5, cache_size=1e-6, n_jobs=n_jobs)
        scores = machine.decision_function(X[:9], NUMBERS[:9], n_jobs=n_jobs)
        assert scores.shape == (9, 2)
        found.append((machine.dual_coef.tobytes(), scores.tobytes()))
    whole = tk.solve.KernelMachine(SST, X, targets, **beside)
    assert whole.run(tol=1e-5, cache_size=1e-6)
    assert found[0] == found[1]
    assert found[0][0] == whole.dual_coef.tobytes()
    other = tk.solve.KernelMachine(SST, X, targets)
    assert not whole.is_like(other)
    for wrong in (None, NUMBERS[:3], NUMBERS[:9, :2], np.full((9, 6), np.nan)):
        with pytest.raises(ValueError, match=r"X_vec|features"):
            whole.decision_function(X[:9], wrong)
    other.run()
    with pytest.raises(ValueError, match="X_vec must be None"):
        other.decision_function(X[:9], NUMBERS[:9])


@batches
@every_kernel
def test_ridge_is_ridge(kernel, cache):
    L, K = factor(kernel), kernel.gram(X)
    alpha = 0.5 / price(kernel)
    weights = WEIGHTS + 0.1
    targets = np.column_stack([T, T**2])
    free = tk.TreeRidge(kernel, alpha, tol=1e-7, cache_size=cache)
    theirs = Ridge(alpha).fit(L, targets, sample_weight=weights)
    np.testing.assert_allclose(
        free.fit(X, targets, weights).predict(X), theirs.predict(L), atol=1e-5
    )
    none = clone(free).set_params(fit_intercept=False).fit(X, T)
    np.testing.assert_allclose(
        none.predict(X),
        KernelRidge(alpha=alpha, kernel="precomputed").fit(K, T).predict(K),
        atol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@batches
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@every_kernel
def test_ranking_is_classification_of_differences(kernel, loss, cache):
    some, groups, C = X[:40], np.arange(40) % 4, price(kernel)
    ranks = np.round(T[:40])
    ranker = tk.TreeRanker(kernel, C, loss=loss, tol=1e-7, cache_size=cache)
    ranker.fit(some, ranks, groups)
    L = factor(kernel)[:40]
    pairs = _ranking._preferences(ranks, groups)
    assert {(a, b) for a, b in pairs} == {
        (a, b)
        for a in range(40)
        for b in range(40)
        if groups[a] == groups[b] and ranks[a] > ranks[b]
    }
    differences = L[pairs[:, 0]] - L[pairs[:, 1]]
    # The same with signs, as a classifier wants two classes.
    both = np.vstack([differences, -differences])
    labels = np.repeat([1, -1], len(pairs))
    theirs = linear(loss, 0.5 * C, 1.0).set_params(fit_intercept=False)
    w = theirs.fit(both, labels).coef_.ravel()
    np.testing.assert_allclose(ranker.predict(some), L @ w, atol=1e-4)
    margins = differences @ w
    paid = {
        "hinge": np.maximum(0, 1 - margins),
        "squared_hinge": np.maximum(0, 1 - margins) ** 2,
        "logistic": np.logaddexp(0, -margins),
    }[loss]
    objective = 0.5 * w @ w + C * paid.sum()
    assert ranker.machine_.objective[0] == pytest.approx(objective, rel=1e-6)
    # Predictions are theirs to 1e-4, so margins to twice that: in between, any order is right.
    score = ranker.score(some, ranks, groups)
    assert np.mean(margins > 2e-4) <= score <= np.mean(margins > -2e-4)
    assert score > (0.7 if kernel == SST else 0.55)
    assert ranker.dual_gap_[0] >= -1e-12


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_both_solvers_of_svc_have_the_same_answer(multi_class, class_weight):
    for y in (THREE, THREE == 1):
        weight = (
            {False: 3.0}
            if class_weight == {0: 3.0} and y.dtype == bool
            else class_weight
        )
        svc = tk.TreeSVC(
            SST, 2.0, multi_class=multi_class, class_weight=weight, tol=1e-6
        )
        matrix, model = (
            clone(svc).set_params(solver=solver).fit(X, y, WEIGHTS)
            for solver in ("matrix", "model")
        )
        np.testing.assert_allclose(
            model.decision_function(X), matrix.decision_function(X), atol=1e-4
        )
        assert (model.predict(X) == matrix.predict(X)).all()
        assert model.dual_coef_.shape[0] == matrix.dual_coef_.shape[0]
        assert (model.dual_gap_ >= 0).all()
        assert (model.dual_gap_ < 1e-5).all()
        assert model.n_iter_.shape == matrix.n_iter_.shape


MACHINES = {
    "hinge": ({"y": np.column_stack([Y, -Y, np.where(T > 0, 1, -1)])}),
    "logistic": {"y": Y, "loss": "logistic", "intercept": "feature"},
    "regression": {"y": T, "loss": "epsilon_insensitive"},
    "one class": {"loss": "one_class"},
    "ranking": {
        "preferences": np.column_stack([np.arange(N - 1), np.arange(1, N)]),
        "intercept": "none",
    },
}
every_machine = pytest.mark.parametrize("parameters", MACHINES.values(), ids=MACHINES)


@every_machine
def test_results_are_the_same_for_every_n_jobs(parameters):
    found = []
    for n_jobs in (1, 2, 3):
        machine = tk.solve.KernelMachine(SST, X, **parameters)
        machine.run(cache_size=1e-6, n_jobs=n_jobs)
        found.append((machine.dual_coef.tobytes(), machine.n_iter))
    assert found[0] == found[1] == found[2]


@every_machine
def test_interrupted_and_resumed_is_uninterrupted(parameters):
    whole = tk.solve.KernelMachine(SST, X, **parameters)
    assert whole.run(tol=1e-5, cache_size=1e-6)
    assert whole.n_iter > 3
    parts = tk.solve.KernelMachine(SST, X, **parameters)
    assert not parts.run(tol=1e-5, cache_size=1e-6, max_iter=1)
    parts = pickle.loads(pickle.dumps(parts))

    def stop(done: int, _: int) -> None:
        if done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.run(tol=1e-5, cache_size=1e-6, progress=stop)
    assert 1 < parts.n_iter < whole.n_iter
    assert pickle.loads(pickle.dumps(parts)).run(tol=1e-5, cache_size=1e-6)
    assert parts.run(tol=1e-5, cache_size=1e-6)
    assert parts.n_iter == whole.n_iter
    assert parts.dual_coef.tobytes() == whole.dual_coef.tobytes()
    assert parts.dual_gap.tobytes() == whole.dual_gap.tobytes()


def test_gaps_shrink_with_tol_and_bound_the_objective():
    exact = tk.solve.KernelMachine(SST, X, Y)
    assert exact.run(tol=1e-9)
    before = np.inf
    for tol in (1.0, 0.3, 0.1, 1e-2, 1e-3, 1e-4):
        machine = tk.solve.KernelMachine(SST, X, Y)
        assert machine.run(tol=tol, cache_size=1e-6)
        gap = machine.dual_gap[0]
        assert machine.violation <= tol
        assert 0 <= machine.objective[0] - exact.objective[0] <= gap
        assert gap <= before
        before = gap


def test_a_path_of_c_ends_where_each_c_does():
    before, before_C = None, 1.0
    for C in (0.1, 0.3, 1.0, 3.0, 10.0):
        cold = tk.solve.KernelMachine(SST, X, Y, C=C)
        warm = tk.solve.KernelMachine(SST, X, Y, C=C)
        if before is not None:
            warm.start_from(before, C / before_C)
        for machine in (cold, warm):
            assert machine.run(tol=1e-6)
        assert warm.objective[0] == pytest.approx(cold.objective[0], rel=1e-6)
        before, before_C = warm, C
    svr = tk.TreeSVR(SST, warm_start=True, random_state=0).fit(X, T)
    svr.set_params(C=5.0).fit(X, T)
    cold = tk.TreeSVR(SST, 5.0).fit(X, T)
    np.testing.assert_allclose(svr.predict(X), cold.predict(X), atol=0.01)
    # Other values: begins anew.
    assert svr.fit(X, -T).n_iter_ == clone(svr).fit(X, -T).n_iter_


@pytest.mark.filterwarnings("ignore:.*with themselves is 0")
def test_trees_that_have_no_kernel_with_themselves_do_no_harm():
    forest = X[:20] + tk.Forest.from_brackets(["(a)", "(b)"])
    y = np.r_[Y[:20], 1, -1]
    for kernel in (SST, SST.replace(normalize=False)):
        machine = tk.solve.KernelMachine(kernel, forest, y)
        assert machine.run(tol=1e-6)
        K = kernel.gram(forest)
        theirs = SVC(kernel="precomputed", tol=1e-8).fit(K, y)
        decisions = machine.model().decision_function(forest)
        np.testing.assert_allclose(decisions, theirs.decision_function(K), atol=1e-4)


def test_trees_too_large_for_floats_are_trained_on():
    wide = "(R " + "(N (A x) (B y)) " * 600 + ")"
    forest = X[:20] + tk.Forest.from_brackets([wide, wide.replace("(B y)", "(B z)", 5)])
    kernel, y = SST.replace(decay=1.0), np.r_[Y[:20], 1, -1]
    K = kernel.gram(forest)
    theirs = SVC(kernel="precomputed", tol=1e-8).fit(K, y)
    machine = tk.solve.KernelMachine(kernel, forest, y)
    assert machine.run(tol=1e-6, cache_size=1e-6)
    np.testing.assert_allclose(
        machine.model().decision_function(forest),
        theirs.decision_function(K),
        atol=1e-4,
    )


BAD = {
    "y": ({"y": np.zeros(N)}, r"targets\[0\]: expected -1 or 1, got 0"),
    "no y": ({"y": None}, "y must be given"),
    "shape": ({"y": Y[:5]}, "y must be of shape"),
    "C": ({"C": -1.0}, r"costs\[0\]: expected from 0 to"),
    "C of each": ({"C": np.ones(3)}, "C must be a number or of shape"),
    "loss": ({"loss": "zero-one"}, "loss must be 'hinge'"),
    "epsilon": ({"loss": "epsilon_insensitive", "epsilon": -1.0}, "epsilon must be"),
    "nu": ({"loss": "one_class", "nu": 1.5}, "nu must be above 0"),
    "intercept": ({"intercept": "both"}, "intercept must be 'free'"),
    "logistic": ({"loss": "logistic"}, "intercept must be none or a feature"),
    "preferences": ({"preferences": [[0, N]]}, "y must be of shape|preferences"),
    "only vectors": ({"vectors": tk.kernels.VectorPolynomial()}, "given together"),
    "mix": ({"mix": 0.5}, "mix must be 1 without"),
    "mix beyond": (
        {"mix": 1.5, "vectors": tk.kernels.VectorPolynomial(), "X_vec": NUMBERS},
        "mix must be from 0 to 1",
    ),
    "vectors": ({"vectors": "poly", "X_vec": NUMBERS}, "must be a VectorPolynomial"),
    "X_vec": (
        {"vectors": tk.kernels.VectorPolynomial(), "X_vec": NUMBERS[:5]},
        "X_vec must be of shape",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), BAD.values(), ids=BAD)
def test_wrong_parameters_are_refused(wrong, message):
    parameters = {"kernel": SST, "X": X, "y": Y} | wrong
    with pytest.raises(ValueError, match=message):
        tk.solve.KernelMachine(**parameters)


def test_states_of_other_problems_are_refused():
    machine = tk.solve.KernelMachine(SST, X, Y)
    machine.run()
    for other, message in (
        (tk.solve.KernelMachine(SST, X, -Y), "betas"),
        (tk.solve.KernelMachine(SST, X[:9], Y[:9]), "betas has"),
    ):
        with pytest.raises(ValueError, match=message):
            other.start_from(machine)
        assert other.n_iter == 0
    assert not machine.is_like(tk.solve.KernelMachine(SST, X, -Y))


def test_machines_are_alike_in_all_but_c():
    pairs = MACHINES["ranking"]["preferences"]
    numbers, cubic = NUMBERS, tk.kernels.VectorPolynomial(3)
    plain: dict[str, object] = {"kernel": SST, "X": X, "y": Y}
    ranking = {"kernel": SST, "X": X, "preferences": pairs, "intercept": "none"}
    beside = plain | {"X_vec": numbers, "vectors": cubic, "mix": 0.5}
    feature = plain | {"intercept": "feature"}
    others = [*map(str, X[1:]), "(A x)"]
    for problem, changes in (
        (
            plain,
            [
                {"kernel": SST.replace(decay=0.5)},
                {"kernel": tk.PartialTreeKernel(0.4, normalize=True)},
                {"X": others},
                {"X": X[:-1], "y": Y[:-1]},
                {"y": -Y},
                {"loss": "squared_hinge"},
                {"epsilon": 0.2},
                {"nu": 0.2},
                {"intercept": "feature"},
            ],
        ),
        (feature, [{"intercept_scaling": 2.0}]),
        (ranking, [{"preferences": pairs[:, ::-1]}, {"preferences": pairs[:-1]}]),
        (
            beside,
            [
                {"X_vec": numbers + 1.0},
                {"vectors": tk.kernels.VectorPolynomial(2)},
                {"mix": 0.6},
            ],
        ),
    ):
        machine = tk.solve.KernelMachine(**problem)
        twin = tk.solve.KernelMachine(**problem | {"X": list(map(str, X)), "C": 3.0})
        assert machine.is_like(twin)
        assert machine.is_like(pickle.loads(pickle.dumps(machine)))
        for change in changes:
            other = tk.solve.KernelMachine(**problem | change)
            assert not machine.is_like(other), change
            assert not other.is_like(machine), change


def test_a_warm_start_with_another_kernel_or_other_trees_begins_anew():
    others = [*map(str, X[1:]), "(A x)"]
    svr = tk.TreeSVR(SST, warm_start=True, random_state=0).fit(X, T)
    for kernel, trees in ((SST, others), (SST.replace(decay=0.9), others)):
        svr.set_params(kernel=kernel).fit(trees, T)
        cold = tk.TreeSVR(kernel, random_state=0).fit(trees, T)
        assert svr.machine_.dual_coef.tobytes() == cold.machine_.dual_coef.tobytes()


ESTIMATORS = {
    "logistic": est.TreeLogisticRegression(SST),
    "logistic, balanced": est.TreeLogisticRegression(
        tk.PartialTreeKernel(normalize=True), 3, class_weight="balanced"
    ),
    "svr": est.TreeSVR(SST, epsilon=0.2, loss="squared_epsilon_insensitive"),
    "ridge": est.TreeRidge(SST, 0.5),
    "ranker": est.TreeRanker(SST, loss="squared_hinge"),
    "one class": est.TreeOneClassSVM(SST, 0.2),
    "svc": est.TreeSVC(SST, solver="model"),
}
for made in ESTIMATORS.values():
    made.set_params(random_state=0)
every_estimator = pytest.mark.parametrize(
    "estimator", ESTIMATORS.values(), ids=ESTIMATORS
)


@every_estimator
def test_estimators_keep_scikit_learns_rules(estimator):
    for name, value in estimator.get_params(deep=False).items():
        assert getattr(estimator, name) is value
    fitted = clone(estimator).fit(X, THREE)
    twin = pickle.loads(pickle.dumps(fitted))
    says = (
        "predict" if not hasattr(fitted, "decision_function") else "decision_function"
    )
    np.testing.assert_array_equal(getattr(twin, says)(X), getattr(fitted, says)(X))
    again = clone(fitted).set_params(kernel__decay=0.2).fit([str(t) for t in X], THREE)
    assert again.kernel.decay == 0.2
    assert np.all(np.asarray(fitted.dual_gap_) < 1e-2)
    assert np.all(np.asarray(fitted.n_iter_) >= 1)
    in_others = joblib.Parallel(2)(
        joblib.delayed(clone(estimator).fit)(X, THREE) for _ in range(2)
    )
    for other in in_others:
        np.testing.assert_array_equal(getattr(other, says)(X), getattr(fitted, says)(X))
    with pytest.raises(ValueError, match="at least one tree"):
        clone(estimator).fit([], [])
    with pytest.raises(TypeError, match="kernel must be"):
        clone(estimator).set_params(kernel="sst").fit(X, THREE)


@every_estimator
def test_few_passes_warn(estimator):
    few = clone(estimator).set_params(max_iter=0)
    with pytest.warns(ConvergenceWarning, match="increase max_iter"):
        few.fit(X, THREE)


def test_probabilities_are_those_of_logistic_regression():
    L = factor(SST)
    for y in (THREE, Y):
        model = tk.TreeLogisticRegression(SST, 2.0, tol=1e-6).fit(X, y)
        n_classes = len(model.classes_)
        P = model.predict_proba(X)
        assert P.shape == (N, n_classes)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        odds = []
        for c in model.classes_[1:] if n_classes == 2 else model.classes_:
            theirs = LogisticRegression(C=2.0, solver="liblinear", tol=1e-10)
            odds.append(theirs.fit(L, y == c).predict_proba(L)[:, 1])
        if n_classes == 2:
            odds = [1 - odds[0], odds[0]]
        expected = np.column_stack(odds)
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(P, expected, atol=1e-5)
        np.testing.assert_array_equal(
            model.predict(X), model.classes_[P.argmax(axis=1)]
        )


def test_auto_takes_the_matrix_for_few_trees_and_the_model_for_many(monkeypatch):
    svc = tk.TreeSVC(SST, 2.0, tol=1e-6)
    by_matrix = clone(svc).fit(X, THREE)
    assert np.isnan(by_matrix.dual_gap_).all()
    monkeypatch.setattr(_svm, "_FEW", N - 1)
    by_model = clone(svc).fit(X, THREE)
    assert (by_model.dual_gap_ < 1e-5).all()
    np.testing.assert_allclose(
        by_model.decision_function(X), by_matrix.decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("solver", ["matrix", "model"])
def test_decisions_are_calibrated_by_scikit_learn(solver, method):
    svc = tk.TreeSVC(SST, 2.0, solver=solver)
    for trees in (X, np.array([str(tree) for tree in X], object)):
        model = CalibratedClassifierCV(svc, method=method, cv=3).fit(trees, THREE)
        P = model.predict_proba(trees)
        assert P.shape == (N, 3)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        assert (model.predict(trees) == THREE).mean() > 0.4


def test_machines_work_in_searches_and_pipelines():
    search = GridSearchCV(
        tk.TreeLogisticRegression(SST),
        {"C": [0.1, 1], "kernel__decay": [0.2, 0.4]},
        cv=3,
    ).fit(X, THREE)
    assert set(search.best_params_) == {"C", "kernel__decay"}
    assert len(cross_val_score(make_pipeline(tk.TreeSVR(SST)), X, T, cv=3)) == 3


@pytest.mark.filterwarnings("ignore:.*with themselves is 0")
@every_plain_kernel
def test_perceptrons_learned_together_are_those_learned_one_by_one(kernel):
    """Small trees of two labels often have scores that are 0 but for rounding."""
    rng = np.random.default_rng(1)

    def small(depth: int) -> str:
        below = [small(depth - 1) for _ in range(rng.integers(0, 3))] if depth else []
        return f"({' '.join([rng.choice(['A', 'B']), *below])})"

    for _ in range(40):
        trees = tk.Forest.from_brackets([small(3) for _ in range(25)])
        labels = rng.choice([-1.0, 1.0], (25, 3))
        together = tk.Perceptron(kernel, "average", n_outputs=3)
        n_together = mistakes(together, trees, labels)
        alone = [tk.Perceptron(kernel, "average") for _ in range(3)]
        n_alone = [mistakes(p, trees, y) for p, y in zip(alone, labels.T, strict=True)]
        assert n_together == sum(n_alone)
        scores = np.column_stack([p.decision_function(trees) for p in alone])
        np.testing.assert_allclose(together.decision_function(trees), scores, atol=1e-8)


@every_kernel
def test_operators_are_their_matrices(kernel):
    some, V = X[:30], RNG.normal(size=(N, 3))
    K = kernel.gram(some, X)
    operator = kernel.operator(some, X, n_jobs=1)
    size = np.abs(K).sum(axis=1).max()
    np.testing.assert_allclose(operator @ V, K @ V, atol=1e-10 * size)
    np.testing.assert_allclose(operator @ V[:, 0], K @ V[:, 0], atol=1e-10 * size)
    np.testing.assert_allclose(
        operator.rmatmat(V[:30]), K.T @ V[:30], atol=1e-10 * size * N
    )


def test_conjugate_gradients_over_an_operator_are_ridge_regression():
    # Older ones have another name for rtol, and no eye_array.
    pytest.importorskip("scipy", minversion="1.12", reason="cg(rtol=) is of SciPy 1.12")
    from scipy.sparse import eye_array

    K = SST.operator(X)
    solution, failed = cg(K + 0.5 * aslinearoperator(eye_array(N)), T, rtol=1e-10)
    assert failed == 0
    ridge = tk.TreeRidge(SST, 0.5, fit_intercept=False, tol=1e-8).fit(X, T)
    np.testing.assert_allclose(K @ solution, ridge.predict(X), atol=1e-6)
    exact = np.linalg.eigvalsh(SST.gram(X))[-3:]
    np.testing.assert_allclose(eigsh(K, k=3)[0], exact, rtol=1e-9)


def test_equal_scores_of_a_ranker_count_half():
    ranker = tk.TreeRanker(SST).fit(["(S (A a))", "(S (B b))"], [1, 0])
    equal, strange = ["(S (A a))"] * 2, "(Z z)"
    assert ranker.score(equal, [1, 0]) == 0.5
    assert ranker.score([*equal, strange], [1, 0, 0]) == (0.5 + 1) / 2
    assert ranker.score([*equal, strange], [1, 0, 2]) == (0.5 + 0 + 0) / 3


@pytest.mark.filterwarnings("ignore:no tree of X shares")
@pytest.mark.parametrize("solver", ["matrix", "model"])
def test_a_tie_goes_to_the_later_class_as_in_libsvm(solver):
    trees, strange = ["(A a)", "(B b)", "(C c)"], ["(Z z)"]
    # Each pair is symmetric, so no intercept; the strange tree has no kernel with any.
    svc = tk.TreeSVC(SST, solver=solver).fit(trees, ["x", "y", "z"])
    assert (svc.intercept_ == 0).all()
    svc.set_params(decision_function_shape="ovo")
    assert (svc.decision_function(strange) == 0).all()
    theirs = SVC(kernel="precomputed").fit(SST(trees), ["x", "y", "z"])
    assert theirs.predict(np.zeros((1, 3))) == svc.predict(strange) == "z"
    two = tk.TreeSVC(SST, solver=solver).fit(trees[:2], ["x", "y"])
    theirs = SVC(kernel="precomputed").fit(SST(trees[:2]), ["x", "y"])
    assert theirs.predict(np.zeros((1, 2))) == two.predict(strange) == "y"


@pytest.mark.parametrize(
    ("weights", "place"), [([np.inf, 1, 1], 0), ([1, np.nan, 1], 1), ([1, 1, -1.0], 2)]
)
def test_a_wrong_weight_is_named(weights, place):
    trees, got = ["(A a)", "(B b)", "(C c)"], weights[place]
    message = rf"sample_weight\[{place}\] must be finite and not negative, got {got}"
    for estimator in (*ESTIMATORS.values(), tk.TreePerceptron(SST)):
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(trees, [0, 1, 1], sample_weight=weights)
    perceptron = tk.Perceptron(SST)
    message = rf"sample_weight\[{place}\] must be above 0 and finite, got {got}"
    with pytest.raises(ValueError, match=message):
        perceptron.partial_fit(trees, [1, -1, 1], sample_weight=weights)
    message = rf"dual_coef\[{place}, 0\] must be finite, got {got}"
    if not np.isfinite(got):
        with pytest.raises(ValueError, match=message):
            tk.DagModel.from_dual(SST, trees, weights)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 2), (2, 0)])
def test_operators_of_no_trees_multiply(n, m):
    K = SST.operator(X[:n], X[:m])
    for vector in (np.ones(m), np.ones((m, 1)), np.ones((m, 3))):
        np.testing.assert_array_equal(K @ vector, np.zeros((n, *vector.shape[1:])))
    np.testing.assert_array_equal(K.T @ np.ones(n), np.zeros(m))
    np.testing.assert_array_equal(
        SST.operator(X[:2]) @ np.ones((2, 0)), np.ones((2, 0))
    )
