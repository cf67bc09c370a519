"""Derivatives of kernels, Gaussian processes that use them, and tuning by gradients."""

from __future__ import annotations

import pickle
import warnings

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

RNG = np.random.default_rng(0)


def tree(depth: int) -> str:
    if depth == 0 or RNG.random() < 0.2:
        return f"({RNG.choice(list('AB'))} {RNG.choice(list('xyz'))})"
    below = " ".join(tree(depth - 1) for _ in range(RNG.integers(1, 4)))
    return f"({RNG.choice(list('SN'))} {below})"


TREES = [tree(3) for _ in range(40)]
KERNELS = {
    "ST": tk.SubtreeKernel(0.5, leaf_weight=0.3),
    "SST": tk.SubsetTreeKernel(0.4, leaf_weight=0.2),
    "PT": tk.PartialTreeKernel(0.5, 0.3, leaf_factor=2.0, max_children=2),
    "ET": tk.ElasticTreeKernel(0.3),
    "paths": tk.SubpathKernel(0.6),
    "sum": tk.SubsetTreeKernel(0.4, normalize=True) + 0.5 * tk.SubpathKernel(0.3),
    "gaussian": tk.kernels.Gaussian(tk.PartialTreeKernel(0.5, 0.3).normalized(), 0.7),
    "polynomial": tk.kernels.Polynomial(tk.SubtreeKernel(0.5).normalized(), 2)
    * tk.ElasticTreeKernel(0.3),
    "similar": tk.PartialTreeKernel(
        0.5, 0.3, similarity=tk.kernels.TableSimilarity({("x", "y"): 0.6})
    ),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@given(
    ko.kernels,
    st.lists(ko.small_trees, min_size=1, max_size=4),
    st.booleans(),
)
def test_gradients_are_central_differences_of_lists_of_fragments(
    given, trees, normalize
):
    name, parameters = given
    kernel = getattr(tk, name)(**parameters, normalize=normalize)
    values = kernel.get_params()
    if values.get("leaf_factor") == 0:
        with pytest.raises(ValueError, match="leaf_factor must be above 0 where"):
            kernel.gram(["(b (a))"], gradient=True)
        return
    texts = [oracle.show(tree) for tree in trees]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # trees without a kernel of their own
        K, slopes = kernel.gram(texts, gradient=True)
        np.testing.assert_array_equal(K, kernel.gram(texts))
    assert list(slopes) == kernel._core.parameter_names
    for parameter, found in slopes.items():
        at = values[parameter]
        if at == 0:
            continue  # below it nothing is defined
        step = 1e-5 * at

        def at_value(value: float, parameter: str = parameter) -> np.ndarray:
            changed = {**parameters, parameter: value}
            return np.array(ko.gram(name, trees, trees, normalize=normalize, **changed))

        expected = (at_value(at + step) - at_value(at - step)) / (2 * step)
        slack = 1e-6 * (np.abs(expected) + at_value(at) / at)
        assert (np.abs(found - expected) <= slack).all(), parameter


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_pairs_rectangles_and_float32_agree_with_the_square(kernel, normalize):
    kernel = kernel.replace(normalize=normalize)
    K, slopes = kernel.gram(TREES, gradient=True, n_jobs=2)
    part, of_part = kernel.gram(
        TREES[:5], TREES[3:], dtype=np.float32, gradient=True, n_jobs=1
    )
    assert part.dtype == np.float32
    np.testing.assert_allclose(part, K[:5, 3:], rtol=1e-6)
    for name, slope in slopes.items():
        np.testing.assert_array_equal(slope, slope.T)
        np.testing.assert_allclose(of_part[name], slope[:5, 3:], rtol=1e-10, atol=1e-12)
        assert not normalize or not slope.diagonal().any()
    for i, j in [(0, 1), (2, 2), (4, 30)]:
        value, of_pair = kernel.pair(TREES[i], TREES[j], gradient=True)
        assert value == kernel.pair(TREES[i], TREES[j])
        for name, slope in slopes.items():
            assert of_pair[name] == pytest.approx(slope[i, j], rel=1e-10, abs=1e-12)


def test_gradients_reach_files_and_tell_their_progress(tmp_path):
    told: list[tuple[int, int]] = []
    out = np.memmap(tmp_path / "k", np.float64, "w+", shape=(40, 40))
    kernel = tk.SubsetTreeKernel(0.4)
    K, _ = kernel.gram(
        TREES, out=out, gradient=True, progress=lambda *done: told.append(done)
    )
    assert K is out
    assert told == [] or told[-1][1] == 40
    empty, slopes = kernel.gram([], gradient=True)
    assert empty.shape == slopes["decay"].shape == (0, 0)


# --- Gaussian processes -------------------------------------------------------------


def process(kernel, **options):
    pytest.importorskip("sklearn")
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

    tree_kernel = tk.gaussian_process.GPTreeKernel(kernel, **options)
    whole = ConstantKernel(1.0) * tree_kernel + WhiteKernel(0.1)
    return GaussianProcessRegressor(whole, normalize_y=True)


def target(trees: list[str]) -> np.ndarray:
    """Something that large fragments say nothing of."""
    return np.array([t.count("(A x)") - 0.5 * t.count("(N ") for t in trees], float)


@pytest.mark.slow
@every_kernel
@pytest.mark.filterwarnings("ignore:The optimal value found:Warning")
def test_a_process_improves_its_likelihood_by_gradients(kernel):
    gp = process(kernel.replace(normalize=True)).fit(TREES, target(TREES))
    begin = gp.kernel.theta
    theta = np.clip(gp.kernel_.theta, *gp.kernel_.bounds.T)
    before = gp.log_marginal_likelihood(begin)
    assert gp.log_marginal_likelihood_value_ > before + 1
    assert gp.log_marginal_likelihood(theta) == pytest.approx(
        gp.log_marginal_likelihood_value_
    )
    _, gradient = gp.log_marginal_likelihood(begin, eval_gradient=True)
    for i in range(len(begin)):
        step = np.eye(len(begin))[i] * 1e-5
        above, below = (gp.log_marginal_likelihood(begin + s) for s in (step, -step))
        assert gradient[i] == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.filterwarnings("ignore:The optimal value found:Warning")
def test_processes_take_lists_arrays_and_forests():
    y = target(TREES)
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    given = [
        TREES,
        np.array(TREES),
        np.array(TREES, object),
        tk.Forest.from_brackets(TREES),
    ]
    found = [process(kernel).fit(X, y).predict(X, return_std=True) for X in given]
    for mean, std in found[1:]:
        np.testing.assert_allclose(mean, found[0][0])
        np.testing.assert_allclose(std, found[0][1])


def test_a_classifier_of_three_classes_learns():
    pytest.importorskip("sklearn")
    from sklearn.gaussian_process import GaussianProcessClassifier

    X = [f"(S (W {w}) (V v{i}))" for w in "abc" for i in range(6)]
    y = [w for w in "abc" for _ in range(6)]
    kernel = tk.gaussian_process.GPTreeKernel(tk.SubsetTreeKernel(0.4, normalize=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bounds that are reached
        classifier = GaussianProcessClassifier(4.0 * kernel).fit(X, y)
    assert classifier.predict(["(S (W b) (V other))"]) == ["b"]


def test_the_kernel_of_a_process_keeps_scikit_learns_rules():
    pytest.importorskip("sklearn")
    from sklearn.base import clone

    GPTreeKernel = tk.gaussian_process.GPTreeKernel
    kernel = tk.PartialTreeKernel(0.5, 0.25, normalize=True)
    own = GPTreeKernel(kernel, {"mu": (0.1, 1.0), "leaf_factor": (0.5, 8.0)})
    assert [h.name for h in own.hyperparameters] == ["decay", "mu", "leaf_factor"]
    np.testing.assert_allclose(np.exp(own.theta), [0.5, 0.25, 1.0])
    np.testing.assert_allclose(np.exp(own.bounds), [[0.001, 1], [0.1, 1], [0.5, 8]])
    other = own.clone_with_theta(np.log([1.0, 0.5, 2.0]))
    assert other.kernel == tk.PartialTreeKernel(
        1.0, 0.5, leaf_factor=2.0, normalize=True
    )
    assert own.kernel == kernel
    assert own.n_dims == 3
    assert not own.is_stationary()
    assert not own.requires_vector_input
    for twin in (clone(own), pickle.loads(pickle.dumps(own))):
        assert twin == own
        np.testing.assert_array_equal(twin(TREES[:4]), own(TREES[:4]))
    # Rounding does not take a parameter out of its range.
    own.theta = np.log([1.0 + 1e-12, 1.0, 1.0])
    assert own.kernel.decay == own.kernel.mu == 1.0
    default = GPTreeKernel()
    assert (default.kernel, clone(default).kernel) == (None, None)
    np.testing.assert_array_equal(
        default(TREES[:4]), tk.SubsetTreeKernel(0.4)(TREES[:4])
    )
    default.theta = np.log([0.2])
    assert default.kernel == tk.SubsetTreeKernel(np.exp(np.log(0.2)))
    assert GPTreeKernel(kernel, "fixed").theta.shape == (0,)
    assert GPTreeKernel(kernel, "fixed")(TREES[:3], eval_gradient=True)[1].shape == (
        3,
        3,
        0,
    )
    assert "normalize=True" in repr(own)
    K, gradient = GPTreeKernel(kernel)(TREES[:4], eval_gradient=True)
    assert K.shape == (4, 4)
    assert gradient.shape == (4, 4, 2)
    np.testing.assert_allclose(own.diag(TREES[:4]), 1.0)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"width": (1, 2)}, "expected names among decay, leaf_weight, got 'width'"),
        ({"decay": (0.1, 2.0)}, "0 < least <= most <= 1"),
        ({"decay": (0.0, 1.0)}, "bounds of decay must be"),
        ({"decay": 3}, "bounds of decay must be 'fixed' or two numbers"),
        ({"leaf_weight": (0.1, 2.0)}, "begin above 0, got 0"),
        ("free", "bounds must be a dict, 'fixed' or None"),
    ],
)
def test_wrong_bounds_are_refused_when_they_are_used(bounds, message):
    pytest.importorskip("sklearn")
    own = tk.gaussian_process.GPTreeKernel(tk.SubsetTreeKernel(), bounds)
    with pytest.raises(ValueError, match=message):
        own.theta  # noqa: B018


# --- Tuning -------------------------------------------------------------------------


def alignment(kernel, trees, y) -> float:
    n = len(trees)
    H = np.eye(n) - 1 / n
    K = H @ kernel.gram(trees) @ H
    columns = y[:, None] == np.unique(y) if y.dtype.kind != "f" else y[:, None]
    Y = H @ columns
    Y = Y / np.sqrt((Y**2).mean(axis=0))
    return float((K * (Y @ Y.T)).sum() / np.linalg.norm(K) / np.linalg.norm(Y @ Y.T))


def evidence(kernel, trees, y) -> float:
    """The best likelihood of amplitudes and noise on a grid."""
    Y = (y - y.mean()) / y.std()
    values, vectors = np.linalg.eigh(kernel.gram(trees))
    values = np.maximum(values, 0)
    projected = (vectors.T @ Y) ** 2
    best = -np.inf
    for noise in np.geomspace(1e-8, 1e3, 400):
        both = values + noise
        scale = (projected / both).mean()
        best = max(best, -0.5 * (np.log(scale) + np.log(both).mean()))
    return best


def neighbours(kernel, *factors):
    """The same kernels with one share changed a little."""
    for name, value in kernel.get_params().items():
        if name.rpartition("__")[2] in ("decay", "mu"):
            for factor in factors:
                yield kernel.replace(**{name: min(value * factor, 1.0)})


@every_kernel
def test_tuning_raises_alignment_to_a_maximum(kernel):
    pytest.importorskip("scipy")
    kernel = kernel.replace(normalize=True)
    y = np.array(["x" if "(A x)" in t else "o" for t in TREES])
    tuned = tk.tune_kernel(kernel, TREES, y)
    assert type(tuned) is type(kernel)
    found = alignment(tuned, TREES, y)
    assert found > alignment(kernel, TREES, y)
    # No neighbour is better.
    for near in neighbours(tuned, 0.97, 1.02):
        assert alignment(near, TREES, y) <= found + 1e-5


@pytest.mark.slow
@every_kernel
def test_tuning_raises_the_likelihood(kernel):
    pytest.importorskip("scipy")
    kernel = kernel.replace(normalize=True)
    y = target(TREES)
    tuned = tk.tune_kernel(kernel, TREES, y, objective="marginal_likelihood")
    before, after = evidence(kernel, TREES, y), evidence(tuned, TREES, y)
    assert after > before
    for near in neighbours(tuned, 0.9, 1.05):
        assert evidence(near, TREES, y) <= after + 2e-3


def test_measures_have_the_derivatives_that_they_say():
    pytest.importorskip("scipy")
    from treekernel_rs import tuning

    Y = tuning._targets(target(TREES), len(TREES))
    kernel = tk.PartialTreeKernel(0.5, 0.3)
    for measure in (tuning._alignment(Y), tuning._likelihood(Y)):

        def at(mu: float, noise: float, measure=measure):
            K, slopes = kernel.replace(mu=mu).gram(TREES, gradient=True)
            return measure(K, [slopes["mu"]], noise)

        _, (slope,), by_noise = at(0.3, 0.5)
        step = 1e-5
        expected = (at(0.3 + step, 0.5)[0] - at(0.3 - step, 0.5)[0]) / (2 * step)
        assert slope == pytest.approx(expected, rel=1e-5)
        expected = (at(0.3, 0.5 + step)[0] - at(0.3, 0.5 - step)[0]) / (2 * step)
        assert by_noise == pytest.approx(expected, rel=1e-5, abs=1e-12)


def test_other_parameters_are_tuned_where_they_are_named():
    pytest.importorskip("scipy")
    y = np.array([t.count("x") > 2 for t in TREES])
    kernel = tk.SubsetTreeKernel(0.4, leaf_weight=0.1, normalize=True)
    tuned = tk.tune_kernel(kernel, TREES, y, parameters=["leaf_weight"], max_iter=20)
    assert tuned.decay == 0.4
    assert tuned.leaf_weight > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "accuracy"}, "objective must be one of"),
        ({"parameters": ["width"]}, "parameters must be a list of some of"),
        ({"parameters": []}, "parameters must be a list"),
        ({"parameters": ["leaf_weight"]}, "begin above 0"),
        ({"max_iter": 0}, "max_iter must be an int of at least 1"),
        ({"y": [1, 1]}, "two different values"),
        ({"y": [1, 2, 3]}, "one target per tree"),
        ({"y": [np.nan, 2.0]}, "y must be finite"),
    ],
)
def test_what_cannot_be_tuned_is_refused(options, message):
    given = {"kernel": tk.SubsetTreeKernel(), "X": TREES[:2], "y": [0, 1], **options}
    with pytest.raises(ValueError, match=message):
        tk.tune_kernel(**given)


def test_only_tree_kernels_are_tuned():
    with pytest.raises(TypeError, match="kernel must be a tree kernel"):
        tk.tune_kernel("sst", TREES[:2], [0, 1])
