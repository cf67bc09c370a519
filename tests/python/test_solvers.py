"""Every kernel machine at small and large C, against scikit-learn on an explicit factor.

A matrix K has a factor L with L L^T = K, whose rows are vectors with the same products as
the trees. What scikit-learn finds for them has the least objective there is; where it solves
the dual, the dual's value is taken, whose error is of second order.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import treekernel_rs as tk

pytest.importorskip("sklearn")
from scipy.special import xlogy
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM
from sklearn.utils.class_weight import compute_sample_weight

RNG = np.random.default_rng(5)


def tree(depth: int) -> str:
    if depth == 0 or RNG.random() < 0.2:
        return f"({RNG.choice(list('AB'))} {RNG.choice(list('xyz'))})"
    below = " ".join(tree(depth - 1) for _ in range(RNG.integers(1, 4)))
    return f"({RNG.choice(list('SN'))} {below})"


N = 100
X = tk.Forest.from_brackets([tree(3) for _ in range(N)])
CLASSES = RNG.integers(0, 3, N)
Y = np.where(CLASSES == 0, 1.0, -1.0)
T = RNG.normal(size=N)
WEIGHTS = RNG.random(N) * 2
WEIGHTS[::17] = 0.0
COSTS = (0.01, 1.0, 10.0, 100.0, 1000.0)
#: A few trees are one batch; all of them are several of 64, and of 32 preferences.
SOME = 45
SST = tk.SubsetTreeKernel(0.4)
EPSILON = 0.1
#: Passes at most, at any C: one that gains nothing is a defect.
PASSES = {SOME: 12, N: 200}
CACHE = {SOME: 200, N: 1e-6}
TOL = 1e-9
SCALING = 2.0

every_cost = pytest.mark.parametrize("C", COSTS)
every_kernel = pytest.mark.parametrize(
    "kernel", [SST.replace(normalize=True), SST], ids=["normalised", "raw"]
)
every_size = pytest.mark.parametrize(
    "n", [SOME, pytest.param(N, marks=pytest.mark.slow)], ids=["one batch", "batches"]
)


def factor(K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-11 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


def paid(loss: str, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    short, off = np.maximum(0, 1 - y * scores), np.abs(scores - y) - EPSILON
    return {
        "hinge": short,
        "squared_hinge": short**2,
        "logistic": np.logaddexp(0, -y * scores),
        "epsilon_insensitive": np.maximum(0, off),
        "squared_epsilon_insensitive": np.maximum(0, off) ** 2,
        "ridge": (scores - y) ** 2,
    }[loss]


def dual(
    loss: str, K: np.ndarray, y: np.ndarray, costs: np.ndarray, beta: np.ndarray
) -> float:
    """Return the dual objective, by the formulas of src/dag/solve.rs."""
    norm, used = 0.5 * beta @ K @ beta, costs > 0
    if loss == "logistic":
        share = np.abs(beta[used]) / costs[used]
        return float(
            -norm - costs[used] @ (xlogy(share, share) + xlogy(1 - share, 1 - share))
        )
    value = y @ beta - norm
    if "epsilon" in loss:
        value -= EPSILON * np.abs(beta).sum()
    if "squared" in loss or loss == "ridge":
        value -= 0.25 * (beta[used] ** 2 / costs[used]).sum()
    return float(value)


def with_a_feature(K: np.ndarray, intercept: str) -> np.ndarray:
    return K + (SCALING**2 if intercept == "feature" else 0.0)


def of_libsvm(
    loss: str, K: np.ndarray, y: np.ndarray, costs: np.ndarray, intercept: str
) -> float:
    """Return the least objective by libsvm, which has a free intercept.

    Without one, every example comes twice, the second time with all signs changed: then the
    best intercept is 0. A squared loss is a ridge on the matrix.
    """
    used = costs > 0
    K, y, costs = K[np.ix_(used, used)], y[used], costs[used]
    if intercept != "free":
        K = np.block([[K, -K], [-K, K]])
        y, costs = np.r_[y, -y], np.r_[costs, costs] / 2
    if "squared" in loss:
        K, costs = K + np.diag(0.5 / costs), np.full(len(y), 1e6)
    machine = SVC if "hinge" in loss else SVR
    width = {} if "hinge" in loss else {"epsilon": EPSILON}
    svm = machine(kernel="precomputed", tol=1e-6, **width).fit(K, y, costs)
    beta = np.zeros(len(y))
    beta[svm.support_] = svm.dual_coef_.ravel()
    return dual(loss.removeprefix("squared_"), K, y, costs, beta)


def of_linear_machines(
    loss: str, L: np.ndarray, y: np.ndarray, costs: np.ndarray, intercept: str
) -> float:
    """Return the least objective by machines that solve the primal."""
    if intercept == "feature":
        L = np.column_stack([L, np.full(len(L), SCALING)])
    often: dict[str, Any] = {"fit_intercept": False, "max_iter": 100_000, "C": 1.0}
    if loss == "logistic":
        machine = LogisticRegression(solver="newton-cholesky", tol=1e-12, **often)
    elif loss == "squared_hinge":
        machine = LinearSVC(dual=False, tol=1e-12, **often)
    elif loss == "squared_epsilon_insensitive":
        machine = LinearSVR(dual=False, loss=loss, epsilon=EPSILON, tol=1e-12, **often)
    else:
        machine = Ridge(0.5, fit_intercept=intercept == "free", solver="cholesky")
    with warnings.catch_warnings():
        # Some do not reach 1e-12, which is more than is asked of them here.
        warnings.simplefilter("ignore")
        machine.fit(L, y, sample_weight=costs)
    w, b = np.ravel(machine.coef_), float(np.ravel(machine.intercept_)[0])
    return float(0.5 * w @ w + costs @ paid(loss, L @ w + b, y))


def least(
    loss: str, K: np.ndarray, y: np.ndarray, costs: np.ndarray, intercept: str
) -> float:
    """Return the least objective by scikit-learn."""
    is_of_primal = loss == "logistic" or (loss != "ridge" and "squared" in loss)
    if loss == "ridge" or (is_of_primal and intercept != "free"):
        return of_linear_machines(loss, factor(K), y, costs, intercept)
    return of_libsvm(loss, with_a_feature(K, intercept), y, costs, intercept)


def check(
    machine: tk.solve.KernelMachine,
    output: int,
    loss: str,
    K: np.ndarray,
    y: np.ndarray,
    costs: np.ndarray,
    intercept: str,
) -> None:
    """Hold one machine's objective and gap to scikit-learn and to the formulas."""
    beta = machine.dual_coef.reshape(len(y), -1)[:, output]
    Q = with_a_feature(K, intercept)
    scores = Q @ beta
    if intercept == "free":
        scores = scores + machine.intercept[output]
    objective = 0.5 * beta @ Q @ beta + costs @ paid(loss, scores, y)
    got, gap = machine.objective[output], machine.dual_gap[output]
    assert got == pytest.approx(objective, rel=1e-8)
    assert got == pytest.approx(least(loss, K, y, costs, intercept), rel=1e-6)
    # The gap is the distance from the dual, by its formula.
    assert got - gap == pytest.approx(dual(loss, Q, y, costs, beta), rel=1e-8)
    assert -1e-9 <= gap / got <= 1e-6


MACHINES = [
    ("hinge", "free"),
    ("hinge", "feature"),
    ("hinge", "none"),
    ("squared_hinge", "free"),
    ("squared_hinge", "feature"),
    ("squared_hinge", "none"),
    ("logistic", "feature"),
    ("logistic", "none"),
    ("epsilon_insensitive", "free"),
    ("epsilon_insensitive", "feature"),
    ("epsilon_insensitive", "none"),
    ("squared_epsilon_insensitive", "free"),
    ("squared_epsilon_insensitive", "feature"),
    ("ridge", "free"),
    ("ridge", "feature"),
    ("ridge", "none"),
]


@every_size
@every_cost
@every_kernel
@pytest.mark.parametrize(("loss", "intercept"), MACHINES)
def test_objectives_and_gaps_are_true_at_every_c(loss, intercept, kernel, C, n):
    is_ridge = loss == "ridge"
    y = (T if is_ridge or "epsilon" in loss else Y)[:n]
    costs = C * WEIGHTS[:n]
    machine = tk.solve.KernelMachine(
        kernel,
        X[:n],
        y,
        loss="squared_epsilon_insensitive" if is_ridge else loss,
        epsilon=0.0 if is_ridge else EPSILON,
        C=costs,
        intercept=intercept,
        intercept_scaling=SCALING,
    )
    assert machine.run(tol=TOL, cache_size=CACHE[n], max_iter=PASSES[n])
    check(machine, 0, loss, kernel.gram(X[:n]), y, costs, intercept)


@every_size
@every_cost
@every_kernel
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_objectives_of_rankings_are_true_at_every_c(loss, kernel, C, n):
    pairs = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    pairs = np.where(T[: n - 1, None] > 0, pairs, pairs[:, ::-1])
    costs = C * (0.1 + WEIGHTS[1:n])
    machine = tk.solve.KernelMachine(
        kernel, X[:n], loss=loss, C=costs, preferences=pairs, intercept="none"
    )
    assert machine.run(tol=TOL, cache_size=CACHE[n], max_iter=PASSES[n])
    L = factor(kernel.gram(X[:n]))
    D = L[pairs[:, 0]] - L[pairs[:, 1]]
    scores = D @ (L.T @ machine.dual_coef)
    # Of the labels, one must be another for scikit-learn: signs of both do not matter.
    signs = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    K = (signs[:, None] * D) @ (signs[:, None] * D).T
    w = L.T @ machine.dual_coef
    objective = 0.5 * w @ w + costs @ paid(loss, scores, np.ones(len(D)))
    got, gap = machine.objective[0], machine.dual_gap[0]
    assert got == pytest.approx(objective, rel=1e-8)
    expected = least(loss, K, signs, costs, "none")
    assert got == pytest.approx(expected, rel=1e-6)
    assert -1e-9 <= gap / got <= 1e-6


@every_size
@every_cost
@every_kernel
@pytest.mark.parametrize("nu", [0.105, 0.505])
def test_objectives_of_one_class_are_true_at_every_c(nu, kernel, C, n):
    K = kernel.gram(X[:n])
    machine = tk.solve.KernelMachine(kernel, X[:n], loss="one_class", nu=nu, C=C)
    assert machine.run(tol=TOL * C, cache_size=CACHE[n], max_iter=PASSES[n])
    # All of C are a factor of w, whose square is in the objective.
    theirs = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-9).fit(K)
    beta = np.zeros(n)
    beta[theirs.support_] = theirs.dual_coef_.ravel()
    expected = -0.5 * C**2 * beta @ K @ beta
    got, gap = machine.objective[0], machine.dual_gap[0]
    assert got == pytest.approx(expected, rel=1e-6)
    assert -1e-9 <= gap / abs(got) <= 1e-6


@every_cost
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_of_several_classes_is_true_at_every_c(C, class_weight, fit_intercept):
    x, codes, weights = X[:SOME], CLASSES[:SOME], WEIGHTS[:SOME]
    model = tk.TreeLogisticRegression(
        SST,
        C,
        class_weight=class_weight,
        fit_intercept=fit_intercept,
        intercept_scaling=SCALING,
        tol=TOL,
        max_iter=PASSES[SOME],
    ).fit(x, codes, weights)
    K = SST.gram(x)
    for c in range(3):
        y = np.where(codes == c, 1.0, -1.0)
        costs = C * weights * compute_sample_weight(class_weight, y)
        intercept = "feature" if fit_intercept else "none"
        check(model.machine_, c, "logistic", K, y, costs, intercept)
    assert (model.dual_gap_ <= 1e-6).all()


@every_cost
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_svc_of_several_classes_is_true_at_every_c(C, class_weight, multi_class):
    x, codes, weights = X[:SOME], CLASSES[:SOME], WEIGHTS[:SOME]
    svc = tk.TreeSVC(
        SST,
        C,
        multi_class=multi_class,
        class_weight=class_weight,
        solver="model",
        tol=TOL,
        max_iter=PASSES[SOME],
    ).fit(x, codes, weights)
    dual_coef = np.zeros((3, SOME))
    dual_coef[:, svc.support_] = svc.dual_coef_
    sides = [(c, None) for c in range(3)]
    if multi_class == "ovo":
        sides = list(combinations(range(3), 2))
    for row, (one, other) in enumerate(sides):
        own = np.flatnonzero((codes == one) | (other is None) | (codes == other))
        K, y = SST.gram(x[own.tolist()]), np.where(codes[own] == one, 1.0, -1.0)
        # Balanced: by the sizes of a class and its rest, or of all classes for pairs.
        of = y if multi_class == "ovr" else codes
        factors = compute_sample_weight(class_weight, of)
        costs = C * weights[own] * (factors if of is y else factors[own])
        beta = dual_coef[row, own]
        scores = K @ beta + svc.intercept_[row]
        objective = 0.5 * beta @ K @ beta + costs @ paid("hinge", scores, y)
        expected = least("hinge", K, y, costs, "free")
        assert objective == pytest.approx(expected, rel=1e-6)
        assert -1e-9 <= svc.dual_gap_[row] <= 1e-6


@every_cost
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_of_several_targets_is_true_at_every_alpha(C, fit_intercept):
    x, weights = X[:SOME], WEIGHTS[:SOME]
    targets = np.column_stack([T, T**2])[:SOME]
    ridge = tk.TreeRidge(
        SST, 1 / C, fit_intercept=fit_intercept, tol=TOL, max_iter=PASSES[SOME]
    ).fit(x, targets, weights)
    intercept = "free" if fit_intercept else "none"
    for output, y in enumerate(targets.T):
        check(
            ridge.machine_,
            output,
            "ridge",
            SST.gram(x),
            y,
            0.5 * C * weights,
            intercept,
        )


@pytest.mark.parametrize("C", [7.0, 7.32, 8.0])
def test_newtons_step_of_a_logistic_example_does_not_go_in_circles(C):
    x = [f"(S (A a{i}) (B (C b{i}) d))" for i in range(3)]
    model = tk.TreeLogisticRegression(SST, C, max_iter=3).fit(x, [1, 0, 0])
    assert model.n_iter_ == 1
    assert model.dual_gap_[0] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("C", [4.0, 10.0, 20.0])
def test_functions_of_one_package_are_learned_in_one_pass(C):
    data = tk.datasets.python_functions(n_classes=8, max_per_class=60)
    x, y = data.forest, data.y == 0
    model = tk.TreeLogisticRegression(SST.replace(normalize=True), C, max_iter=4).fit(
        x, y
    )
    assert model.n_iter_ <= 2
    assert model.dual_gap_[0] < 1e-6
    assert model.score(x, y) > 0.85


def test_a_warning_tells_what_ended_the_training():
    x, y = X[:SOME], CLASSES[:SOME]
    with pytest.warns(ConvergenceWarning, match="max_iter=0 passes were not enough"):
        tk.TreeLogisticRegression(SST, max_iter=0).fit(x, y)
    # No float of the scores is as exact as that.
    model = tk.TreeLogisticRegression(SST, 1000, tol=1e-300)
    with pytest.warns(ConvergenceWarning, match="rounding allows neither"):
        model.fit(x, y)
    assert model.n_iter_ < model.max_iter
    assert (np.abs(model.dual_gap_) < 1e-12).all()
    # Without a limit of passes that is an end as well.
    with pytest.warns(ConvergenceWarning, match="rounding allows neither"):
        tk.TreeSVC(SST, 1000, solver="model", tol=1e-300).fit(x, y)
