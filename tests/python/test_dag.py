"""DAG models and perceptrons against plain sums over all support trees."""

from __future__ import annotations

import copy
import functools
import gzip
import itertools
import math
import pickle
import random
import warnings

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from dag_oracle import DualPerceptron, mistakes
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import seconds_until_interrupted

import treekernel_rs as tk


def has_models(name: str) -> bool:
    try:
        tk.DagModel(getattr(tk, name)())
    except ValueError:
        return False
    return True


NAMES = [name for name in ko.VECTORS if has_models(name)]
kernels = ko.kernels.filter(lambda kernel: kernel[0] in NAMES)
VOTES = ["last", "average", "vote"]
WRONG = (ValueError, TypeError)
WITH_LEAVES = ("SubtreeKernel", "SubsetTreeKernel")
every_kernel = pytest.mark.parametrize("name", NAMES)
# Models of other kernels keep their support trees.
every_graph = pytest.mark.parametrize(
    "name", [name for name in NAMES if tk.DagModel(getattr(tk, name)()).is_graph]
)
every_vote = pytest.mark.parametrize("vote", VOTES)

# Parameters with which all kernel values are multiples of a power of two: sums of them
# are exact in any order, so a score of 0 is a 0.
DYADIC = {
    "SubtreeKernel": {"decay": 0.5, "leaf_weight": 0.25},
    "SubsetTreeKernel": {"decay": 0.5, "leaf_weight": 0.25},
    "PartialTreeKernel": {"decay": 0.5, "mu": 0.5, "leaf_factor": 4.0},
    "ElasticTreeKernel": {"decay": 0.5},
    "SubpathKernel": {"decay": 0.5},
}


def make(name: str, parameters: dict | None = None, **more: object):
    return getattr(tk, name)(**{**(parameters or {}), **more})


def read(trees: list[oracle.Tree]) -> tk.Forest:
    return tk.Forest.from_brackets([oracle.show(tree) for tree in trees])


def quietly(function, *args, **kwargs):
    """Call without the warning about zero self-kernels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def random_tree(rng: random.Random, n: int, labels: str = "abc") -> oracle.Tree:
    """Return a tree of n nodes, each below a random one before it."""
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[rng.randrange(max(0, node - 4), node)].append(node)
    made: list = [None] * n
    for node in reversed(range(n)):
        made[node] = (rng.choice(labels), tuple(made[c] for c in children[node]))
    return made[0]


def random_forest(n: int, size: int = 20, seed: int = 0, least: int = 1) -> tk.Forest:
    """Return n trees, the last fifth of them copies of others."""
    rng = random.Random(seed)
    trees = [random_tree(rng, rng.randint(least, size)) for _ in range(n - n // 5)]
    return read(trees + rng.choices(trees, k=n // 5))


def random_signs(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice([-1, 1], n)


def model_of(kernel, forest, alphas, **more: object) -> tk.DagModel:
    model = tk.DagModel(kernel, **more)
    quietly(model.add, forest, alphas)
    return model


def assert_is_sum(scores, matrix, alphas) -> None:
    """Hold scores to the matrix of scored and support trees times the alphas."""
    scores, matrix, alphas = (np.asarray(x) for x in (scores, matrix, alphas))
    wanted, scale = matrix @ alphas, np.abs(matrix) @ np.abs(alphas)
    assert scores.dtype == np.float64
    assert scores.shape == wanted.shape
    wrong = np.abs(scores - wanted) > 1e-10 * scale
    assert not wrong.any(), (scores[wrong], wanted[wrong], scale[wrong])


# --- The score ----------------------------------------------------------------------

_alpha = st.one_of(
    st.sampled_from([1.0, -1.0, 0.0, 0.5]),
    st.floats(-10, 10, allow_subnormal=False),
    st.floats(-1e6, 1e6, allow_subnormal=False),
)


@st.composite
def supports(draw: st.DrawFn) -> tuple[list[oracle.Tree], list[float]]:
    """Draw trees with weights, some of them with a twin that cancels them."""
    trees = draw(ko.small_forests)
    alphas = draw(st.lists(_alpha, min_size=len(trees), max_size=len(trees)))
    for i in draw(st.sets(st.integers(0, len(trees) - 1), max_size=3)):
        trees, alphas = [*trees, trees[i]], [*alphas, -alphas[i]]
    return trees, alphas


@given(kernels, supports(), ko.small_forests, st.booleans())
def test_scores_are_sums_over_the_support_trees(kernel, support, trees, normalize):
    name, parameters = kernel
    others, alphas = support
    matrix = ko.gram(name, trees, others, normalize=normalize, **parameters)
    model = model_of(make(*kernel, normalize=normalize), read(others), alphas)
    assert_is_sum(quietly(model.decision_function, read(trees)), matrix, alphas)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *[(name, {}) for name in NAMES],
        ("SubtreeKernel", {"leaf_weight": 0.4}),
        ("SubsetTreeKernel", {"leaf_weight": 0.4}),
        ("PartialTreeKernel", {"leaf_factor": 5.0}),
    ],
    ids=str,
)
def test_scores_are_products_with_the_kernel_matrix(name, parameters, normalize):
    k = make(name, parameters, normalize=normalize)
    support, x = random_forest(300), random_forest(200, seed=1)
    matrix = quietly(k.gram, x, support)
    rng = np.random.default_rng(0)
    for alphas in (
        np.ones(300),
        rng.normal(size=300),
        rng.choice([-1.0, 1.0], 300),
        rng.normal(size=300) * 10.0 ** rng.uniform(-6, 6, 300),
    ):
        assert_is_sum(
            quietly(model_of(k, support, alphas).decision_function, x), matrix, alphas
        )


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("max_children", [1, 2, 5])
def test_scores_respect_the_longest_child_subsequence(normalize, max_children):
    k = tk.PartialTreeKernel(max_children=max_children, normalize=normalize)
    support, x = random_forest(60), random_forest(40, seed=1)
    alphas = np.random.default_rng(0).normal(size=60)
    assert_is_sum(
        model_of(k, support, alphas).decision_function(x), k(x, support), alphas
    )


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_growing_models_forget_and_count_nothing_twice(name, normalize):
    """After every step the scores are those of the trees added so far."""
    k = make(name, normalize=normalize)
    support, x = random_forest(120), random_forest(60, seed=1)
    alphas = np.random.default_rng(0).normal(size=120)
    matrix = quietly(k.gram, x, support)
    model = tk.DagModel(k)
    assert not quietly(model.decision_function, x).any()
    for start, end in itertools.pairwise([0, 1, 2, 30, 31, 90, 120]):
        quietly(model.add, support[start:end], alphas[start:end])
        scores = quietly(model.decision_function, x)
        assert_is_sum(scores, matrix[:, :end], alphas[:end])
        np.testing.assert_array_equal(quietly(model.decision_function, x), scores)
        assert model.n_trees == end


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_the_order_of_adding_does_not_matter(name, normalize):
    k = make(name, normalize=normalize)
    support, x = random_forest(100), random_forest(50, seed=1)
    rng = np.random.default_rng(0)
    alphas, order = rng.normal(size=100), rng.permutation(100)
    matrix = quietly(k.gram, x, support)
    forth = quietly(model_of(k, support, alphas).decision_function, x)
    back = quietly(model_of(k, support[order], alphas[order]).decision_function, x)
    scale = np.abs(matrix) @ np.abs(alphas)
    assert (np.abs(forth - back) <= 1e-10 * scale).all()


@every_kernel
@given(data=st.data())
@settings(max_examples=30)
def test_what_was_added_and_removed_leaves_zero(name, data):
    """Whole weights add up to exactly 0, whatever came between."""
    trees = data.draw(ko.small_forests)
    n = len(trees)
    alphas = data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    k, forest = make(name), read(trees)
    model = model_of(k, forest, alphas)
    order = data.draw(st.permutations(range(n)))
    model.add(forest[order], [-alphas[i] for i in order])
    assert not model.decision_function(forest).any()


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_what_was_added_and_removed_leaves_next_to_nothing(name, normalize):
    k = make(name, normalize=normalize)
    support, x = random_forest(80), random_forest(40, seed=1)
    alphas = np.random.default_rng(0).normal(size=80)
    model = model_of(k, support, alphas)
    order = np.random.default_rng(1).permutation(80)
    quietly(model.add, support[order], -alphas[order])
    scale = quietly(k.gram, x, support) @ np.abs(alphas)
    assert (np.abs(quietly(model.decision_function, x)) <= 1e-10 * scale).all()
    # And what is added now is all there is.
    quietly(model.add, support[:1], [1.0])
    wanted = quietly(k.gram, x, support[:1])[:, 0]
    assert (
        np.abs(quietly(model.decision_function, x) - wanted) <= 1e-10 * (scale + wanted)
    ).all()


@every_kernel
def test_trees_without_anything_in_common_score_zero(name):
    model = model_of(make(name), ["(S (A a) (B b))", "(S (A a) (B c))"], [1.0, -2.5])
    assert not model.decision_function(["(T (X x) (Y y))", "(z)"]).any()


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_several_outputs_are_that_many_models(name, normalize):
    k = make(name, normalize=normalize)
    support, x = random_forest(60), random_forest(40, seed=1)
    alphas = np.random.default_rng(0).normal(size=(60, 3))
    alphas[::2, 1] = 0
    model = tk.DagModel(k, n_outputs=3)
    quietly(model.add, support[:20], alphas[:20])
    quietly(model.add, support[20:], alphas[20:])
    scores = quietly(model.decision_function, x)
    assert_is_sum(scores, quietly(k.gram, x, support), alphas)
    for j in range(3):
        single = quietly(model_of(k, support, alphas[:, j]).decision_function, x)
        np.testing.assert_allclose(scores[:, j], single, rtol=1e-9, atol=1e-9)
    column = model_of(k, support, alphas[:, :1], n_outputs=1)
    np.testing.assert_allclose(
        np.ravel(quietly(column.decision_function, x)),
        scores[:, 0],
        rtol=1e-9,
        atol=1e-9,
    )


@every_kernel
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_n_jobs_changes_no_bit(name, n_outputs):
    support, x = random_forest(150), random_forest(200, seed=1)
    alphas = np.random.default_rng(0).normal(size=(150, n_outputs))
    alphas = alphas[:, 0] if n_outputs == 1 else alphas
    model = model_of(make(name), support, alphas, n_outputs=n_outputs)
    alone = model.decision_function(x, n_jobs=1)
    for n_jobs in (2, 3, 8, None):
        np.testing.assert_array_equal(model.decision_function(x, n_jobs=n_jobs), alone)
    # A tree's score does not depend on the company it is in.
    single = [model.decision_function(x[i : i + 1])[0] for i in (0, 7, 199)]
    np.testing.assert_allclose(single, alone[[0, 7, 199]], rtol=1e-9, atol=1e-9)


@every_kernel
def test_lists_of_strings_are_forests(name):
    lines = ["(S (A a) (B b))", "(S(A(a))(B(c)))", "(a)"]
    k, forest = make(name), tk.Forest.from_brackets(lines)
    model, other = model_of(k, lines, [1, -1, 2]), model_of(k, forest, [1, -1, 2])
    np.testing.assert_array_equal(
        model.decision_function(lines), other.decision_function(forest)
    )
    assert model.decision_function([]).shape == (0,)
    quietly(model.add, [], [])
    np.testing.assert_array_equal(
        model.decision_function(lines), other.decision_function(forest)
    )


# --- The model ----------------------------------------------------------------------


@every_graph
def test_a_model_has_one_node_per_distinct_subtree(name):
    forest = random_forest(100)
    model = tk.DagModel(make(name))
    assert (model.n_nodes, model.n_trees) == (0, 0)
    model.add(forest, np.ones(100))
    assert (model.n_nodes, model.n_trees) == (forest.n_distinct, 100)
    model.add(forest[:10], -np.ones(10))
    assert (model.n_nodes, model.n_trees) == (forest.n_distinct, 110)
    model.decision_function(random_forest(50, seed=1))
    assert model.n_nodes == forest.n_distinct


@every_graph
@pytest.mark.parametrize("normalize", [False, True])
def test_contributions_of_the_nodes_add_up_to_the_score(name, normalize):
    k = make(name, normalize=normalize)
    support, x = random_forest(60), random_forest(40, seed=1, least=2)
    alphas = np.random.default_rng(0).normal(size=60)
    model, scale = model_of(k, support, alphas), quietly(k.gram, x, support)
    scale = scale @ np.abs(alphas)
    for tree, score, most in zip(
        x, quietly(model.decision_function, x), scale, strict=True
    ):
        shares = np.asarray(quietly(model.contributions, tree))
        assert shares.shape == (tree.n_nodes,)
        assert abs(shares.sum() - score) <= 1e-10 * most


@every_graph
def test_contributions_stand_in_preorder(name):
    """A node's is the score of its subtree less those of its children's subtrees."""
    support = random_forest(60)
    alphas = np.random.default_rng(0).normal(size=60)
    model = model_of(make(name), support, alphas)

    def preorder(tree: tk.Tree):
        yield tree
        for child in tree.children:
            yield from preorder(child)

    def score(tree: tk.Tree) -> float:
        return model.decision_function([str(tree)])[0]

    for tree in random_forest(5, seed=1, least=8):
        wanted = [
            score(node) - sum(score(child) for child in node.children)
            for node in preorder(tree)
        ]
        found = np.asarray(model.contributions(tree))
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


def from_arrays(model: tk.DagModel, arrays: dict) -> tk.DagModel:
    return type(model).from_arrays(**arrays)


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_pickles_and_arrays_score_the_same_and_go_on(name, normalize, tmp_path):
    k = make(name, normalize=normalize)
    support, x = random_forest(60), random_forest(40, seed=1)
    alphas = np.random.default_rng(0).normal(size=60)
    model = model_of(k, support[:40], alphas[:40])
    path = tmp_path / "model.npz"
    np.savez(path, **model.to_arrays())
    with np.load(path, allow_pickle=False) as file:
        twins = [from_arrays(model, dict(file))]
    twins += [pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)]
    before = quietly(model.decision_function, x)
    for twin in twins:
        assert (twin.n_nodes, twin.n_trees) == (model.n_nodes, model.n_trees)
        np.testing.assert_array_equal(quietly(twin.decision_function, x), before)
    quietly(model.add, support[40:], alphas[40:])
    for twin in twins:
        np.testing.assert_array_equal(
            quietly(twin.decision_function, x), before
        )  # not the same
        quietly(twin.add, support[40:], alphas[40:])
        assert twin.n_nodes == model.n_nodes
        np.testing.assert_allclose(
            quietly(twin.decision_function, x),
            quietly(model.decision_function, x),
            rtol=1e-9,
            atol=1e-9,
        )


@pytest.mark.parametrize("name", NAMES[:3])
def test_depth_is_no_trouble(name):
    n = 100_000
    deep = "".join(f"(a{i}" for i in range(n)) + ")" * n
    k, lines = make(name), [deep, f"(a{n - 2} a{n - 1})"]
    model = model_of(k, lines[:1], [2.0])
    np.testing.assert_allclose(
        model.decision_function(lines), 2 * k(lines)[0], rtol=1e-10
    )
    assert model.n_nodes == n
    pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", ["SubtreeKernel", "SubsetTreeKernel"])
def test_width_is_no_trouble(name):
    n = 100_000
    lines = ["(a" + " b" * n + ")", "(a" + "(b c)" * n + ")", "(b c)"]
    k = make(name, {"decay": 1e-6})
    alphas = [1.0, 2.0, -1.0]
    assert_is_sum(model_of(k, lines, alphas).decision_function(lines), k(lines), alphas)


@pytest.mark.parametrize("name", ["SubsetTreeKernel", "PartialTreeKernel"])
@pytest.mark.parametrize("normalize", [False, True])
def test_no_score_is_infinite_or_no_number(name, normalize):
    wide = "(R " + " ".join(f"(L{i} a)" for i in range(3000)) + ")"
    k = make(name, {"decay": 1.0}, normalize=normalize)
    try:
        scores = model_of(k, [wide, wide], [1.0, -0.5]).decision_function([wide])
    except OverflowError:
        return
    assert np.isfinite(scores).all()
    assert normalize or name == "PartialTreeKernel"


BAD_ALPHAS = {
    "too few": [1.0],
    "too many": [1.0] * 3,
    "not a number": [1.0, math.nan],
    "infinite": [math.inf, 1.0],
    "two columns": [[1.0, 1.0]] * 2,
    "a row": [[1.0, 1.0]],
    "strings": ["a", "b"],
    "one number": 1.0,
}


@every_kernel
@pytest.mark.parametrize("bad", BAD_ALPHAS.values(), ids=BAD_ALPHAS)
def test_wrong_alphas_are_refused_and_change_nothing(name, bad):
    forest = ["(S (A a) (B b))", "(S (A a) (B c))"]
    model = model_of(make(name), forest, [1.0, 2.0])
    before = model.decision_function(forest)
    with pytest.raises(WRONG, match="alphas"):
        model.add(["(S (A a))", "(T (A a))"], bad)
    np.testing.assert_array_equal(model.decision_function(forest), before)
    assert model.n_trees == 2


@pytest.mark.parametrize(
    "bad", [[1.0, 1.0], [[1.0], [1.0]], [[1.0] * 3] * 2, [[1.0, math.nan]] * 2], ids=str
)
def test_wrong_alphas_of_several_outputs_are_refused(bad):
    model = tk.DagModel(tk.SubsetTreeKernel(), n_outputs=2)
    with pytest.raises(ValueError, match="alphas"):
        model.add(["(a b)", "(a c)"], bad)


@pytest.mark.parametrize("n_outputs", [0, -1, 1.5, "two", None])
def test_a_wrong_number_of_outputs_is_refused(n_outputs):
    with pytest.raises(WRONG, match="n_outputs"):
        tk.DagModel(tk.SubsetTreeKernel(), n_outputs=n_outputs)


def test_other_wrong_arguments_are_refused_by_name():
    k, forest = tk.SubsetTreeKernel(), ["(a b)", "(a c)"]
    for wrong in (5, "SubsetTreeKernel", tk.SubsetTreeKernel):
        with pytest.raises(WRONG, match="kernel"):
            tk.DagModel(wrong)
    for n_jobs in (0, 1.5, "2"):
        with pytest.raises(WRONG, match="n_jobs"):
            model_of(k, forest, [1, 2]).decision_function(forest, n_jobs=n_jobs)
    for coefficients in ([1.0], [1.0] * 3, [1.0, math.nan], [1.0, math.inf]):
        with pytest.raises(ValueError, match="dual_coef"):
            tk.DagModel.from_dual(k, forest, coefficients)
    for intercept in (math.nan, math.inf):
        with pytest.raises(ValueError, match="intercept"):
            tk.DagModel.from_dual(k, forest, [1.0, 2.0], intercept)
    with pytest.raises(tk.ParseError):
        model_of(k, forest, [1, 2]).decision_function(["(a"])


# --- Machines trained elsewhere -----------------------------------------------------


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_dual_coefficients_are_alphas_with_an_intercept(name, normalize):
    k = make(name, normalize=normalize)
    support, x = random_forest(50), random_forest(30, seed=1)
    alphas = np.random.default_rng(0).normal(size=50)
    plain = quietly(model_of(k, support, alphas).decision_function, x)
    for intercept in (0.0, -1.25):
        model = quietly(tk.DagModel.from_dual, k, support, alphas, intercept)
        np.testing.assert_allclose(
            quietly(model.decision_function, x),
            plain + intercept,
            rtol=1e-12,
            atol=1e-12,
        )
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        quietly(twin.decision_function, x), quietly(model.decision_function, x)
    )


def labelled(n: int, n_classes: int, seed: int = 0) -> tuple[tk.Forest, np.ndarray]:
    """Return trees, and classes that have to do with their sizes, with some noise."""
    forest = random_forest(n, seed=seed, least=2)
    rng = np.random.default_rng(seed)
    sizes = np.argsort(np.argsort(forest.n_nodes + rng.normal(0, 3, n)))
    return forest, sizes * n_classes // n


@every_kernel
@pytest.mark.parametrize("normalize", [False, True])
def test_a_binary_svc_s_decisions_are_reproduced(name, normalize):
    svm = pytest.importorskip("sklearn.svm")
    k = make(
        name, {"leaf_weight": 0.1} if name in WITH_LEAVES else {}, normalize=normalize
    )
    forest, classes = labelled(160, 2)
    train, test = forest[:100], forest[100:]
    svc = svm.SVC(kernel="precomputed", C=1.0).fit(k(train), classes[:100])
    wanted = svc.decision_function(k(test, train))
    model = tk.DagModel.from_dual(
        k, train[svc.support_], svc.dual_coef_[0], float(svc.intercept_[0])
    )
    np.testing.assert_allclose(model.decision_function(test), wanted, rtol=0, atol=1e-9)
    # Its attributes as they are: coefficients (1, n), intercept (1,).
    model = tk.DagModel.from_dual(
        k, train[svc.support_], svc.dual_coef_, svc.intercept_
    )
    np.testing.assert_allclose(
        np.ravel(model.decision_function(test)), wanted, rtol=0, atol=1e-9
    )


def one_versus_one(svc) -> np.ndarray:
    """Return the coefficients of all pairs of classes, (n_support, n_pairs).

    A support tree of class i has that for the pair of i and j in row j - 1 of dual_coef_
    if i < j, and in row j if i > j.
    """
    n = len(svc.classes_)
    owner = np.repeat(np.arange(n), svc.n_support_)
    columns = []
    for i, j in itertools.combinations(range(n), 2):
        column = np.zeros(len(owner))
        column[owner == i] = svc.dual_coef_[j - 1, owner == i]
        column[owner == j] = svc.dual_coef_[i, owner == j]
        columns.append(column)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", ["SubsetTreeKernel", "PartialTreeKernel"])
def test_the_decisions_of_an_svc_of_pairs_of_classes_are_reproduced(name):
    svm = pytest.importorskip("sklearn.svm")
    k = make(name, normalize=True)
    forest, classes = labelled(200, 4)
    train, test = forest[:140], forest[140:]
    svc = svm.SVC(kernel="precomputed", decision_function_shape="ovo")
    matrix = quietly(k.gram, test, train)
    wanted = svc.fit(quietly(k, train), classes[:140]).decision_function(matrix)
    assert wanted.shape == (60, 6)
    coefficients, support = one_versus_one(svc), train[svc.support_]
    model = model_of(k, support, coefficients, n_outputs=6)
    found = quietly(model.decision_function, test) + svc.intercept_
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
    for pair in range(6):
        single = quietly(
            tk.DagModel.from_dual,
            k, support, coefficients[:, pair], float(svc.intercept_[pair]),
        )  # fmt: skip
        found = quietly(single.decision_function, test)
        np.testing.assert_allclose(found, wanted[:, pair], rtol=0, atol=1e-9)


@every_kernel
def test_an_svr_s_predictions_are_reproduced(name):
    svm = pytest.importorskip("sklearn.svm")
    k = make(name, normalize=True)
    forest = random_forest(150, least=2)
    sizes = np.log(forest.n_nodes)
    train, test = forest[:100], forest[100:]
    svr = svm.SVR(kernel="precomputed").fit(quietly(k, train), sizes[:100])
    wanted = svr.predict(quietly(k.gram, test, train))
    model = quietly(
        tk.DagModel.from_dual,
        k, train[svr.support_], svr.dual_coef_[0], float(svr.intercept_[0]),
    )  # fmt: skip
    np.testing.assert_allclose(
        quietly(model.decision_function, test), wanted, rtol=0, atol=1e-9
    )


# --- Learning -----------------------------------------------------------------------


def twin_of(matrix: np.ndarray) -> DualPerceptron:
    """Return the slow perceptron over rows of a kernel matrix."""
    return DualPerceptron(matrix.item)


def assert_votes_alike(p, slow: DualPerceptron, vote, x, numbers, *extra) -> None:
    """Hold the scores of x to those of the slow twin for the rows with these numbers."""
    found, wanted = (
        quietly(p.decision_function, x, *extra),
        np.array(slow.score(numbers, vote)),
    )
    assert found.shape == wanted.shape
    assert found.dtype == np.float64
    slack = 1e-10 * np.array(slow.scale(numbers, vote))
    if vote == "vote":
        slack = np.array(slow.doubt(numbers)) + 1e-9
    # A mean over the examples is an average as good as their sum.
    divisors = [1, max(1, sum(slow.votes))] if vote == "average" else [1]
    assert any(
        (np.abs(found * divisor - wanted) <= slack).all() for divisor in divisors
    ), (found[:10], wanted[:10])


@every_kernel
@every_vote
@settings(max_examples=40)
@given(data=st.data())
def test_learning_is_that_of_a_dual_perceptron(name, vote, data):
    trees = data.draw(ko.small_forests) + data.draw(ko.small_forests)
    n = len(trees)
    order = data.draw(st.lists(st.integers(0, n - 1), max_size=25))
    y = data.draw(
        st.lists(st.sampled_from([-1, 1]), min_size=len(order), max_size=len(order))
    )
    k, forest = make(name, DYADIC[name]), read(trees)
    p, slow = tk.Perceptron(k, predict_with=vote), twin_of(k(forest))
    for i, sign in zip(order, y, strict=True):
        assert mistakes(p, forest[[i]], [sign]) == slow.learn([i], [sign])
    assert p.n_mistakes == len(slow.mistakes)
    assert_votes_alike(p, slow, vote, forest, range(n))


def learn_beside(p, slow: DualPerceptron, forest, y, numbers, x=None) -> None:
    """Learn one example at a time; the slow twin must agree wherever it is sure."""
    for i in numbers:
        extra = () if x is None else (x[[i]],)
        mistake = quietly(mistakes, p, forest[[i]], y[[i]], *extra) == 1
        assert slow.follow(i, int(y[i]), mistake=mistake), i
    assert p.n_mistakes == len(slow.mistakes)


@every_kernel
@every_vote
@pytest.mark.parametrize("normalize", [False, True])
def test_learning_longer_is_that_of_a_dual_perceptron(name, vote, normalize):
    k = make(name, normalize=normalize)
    forest, y = random_forest(150), random_signs(150)
    p, slow = tk.Perceptron(k, predict_with=vote), twin_of(quietly(k, forest))
    learn_beside(p, slow, forest, y, [*range(100), *range(100)])
    assert_votes_alike(p, slow, vote, forest, range(150))


@functools.cache
def boundaries(folder):
    path = folder / "srl" / "masc_boundary.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in itertools.islice(file, 2300)]
    y = np.array([int(row[0]) for row in rows])
    return tk.Forest.from_brackets([row[-1] for row in rows]), y


@functools.cache
def boundary_matrix(folder, kernel: str) -> np.ndarray:
    return quietly(tk.kernels.kernel_from_json(kernel), boundaries(folder)[0])


@every_vote
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("SubsetTreeKernel", {"decay": 0.4}),
        ("SubsetTreeKernel", {"decay": 0.4, "normalize": True}),
        ("SubtreeKernel", {"decay": 0.4, "leaf_weight": 0.4}),
        ("PartialTreeKernel", {"decay": 0.4, "normalize": True}),
    ],
    ids=str,
)
def test_learning_from_real_trees_is_that_of_a_dual_perceptron(
    shared_data, name, parameters, vote
):
    forest, y = boundaries(shared_data)
    k = make(name, parameters)
    p, slow = (
        tk.Perceptron(k, predict_with=vote),
        twin_of(boundary_matrix(shared_data, k.to_json())),
    )
    learn_beside(p, slow, forest, y, range(2000))
    assert p.n_mistakes > 50
    assert_votes_alike(p, slow, vote, forest[2000:], range(2000, 2300))


@every_vote
@pytest.mark.parametrize("name", ["SubsetTreeKernel", "SubtreeKernel"])
def test_passes_over_real_trees_are_those_of_a_dual_perceptron(shared_data, name, vote):
    """At decay 0.5 nothing is rounded, so there is no doubt about any sign."""
    forest, y = boundaries(shared_data)
    k = make(name, DYADIC[name])
    p, slow = (
        tk.Perceptron(k, predict_with=vote),
        twin_of(boundary_matrix(shared_data, k.to_json())),
    )
    for start, end in itertools.pairwise([0, 1, 2, 3, 10, 100, 101, 700, 2000]):
        n_mistakes = slow.learn(range(start, end), y[start:end].tolist())
        assert mistakes(p, forest[start:end], y[start:end]) == n_mistakes, end
    assert p.n_mistakes > 50
    assert_votes_alike(p, slow, vote, forest[2000:], range(2000, 2300))


@every_kernel
@every_vote
@settings(max_examples=20)
@given(data=st.data())
def test_streams_may_be_split_anywhere(name, vote, data):
    k, forest, y = make(name, DYADIC[name]), random_forest(80), random_signs(80)
    cuts = sorted(data.draw(st.lists(st.integers(0, 80), max_size=6)))
    whole, parts = (tk.Perceptron(k, predict_with=vote) for _ in range(2))
    n_mistakes = mistakes(whole, forest, y)
    found = [
        mistakes(parts, forest[start:end], y[start:end])
        for start, end in itertools.pairwise([0, *cuts, 80])
    ]
    assert sum(found) == n_mistakes == whole.n_mistakes == parts.n_mistakes
    np.testing.assert_array_equal(
        parts.decision_function(forest), whole.decision_function(forest)
    )
    assert parts.model.n_nodes == whole.model.n_nodes


@every_vote
def test_scoring_between_lessons_changes_nothing(vote):
    k, forest, y = tk.SubsetTreeKernel(0.5), random_forest(80), random_signs(80)
    whole, parts = (tk.Perceptron(k, predict_with=vote) for _ in range(2))
    whole.partial_fit(forest, y)
    for i in range(80):
        parts.partial_fit(forest[[i]], y[[i]])
        parts.decision_function(forest[:3])
    np.testing.assert_array_equal(
        parts.decision_function(forest), whole.decision_function(forest)
    )


@every_graph
def test_only_subtrees_of_mistakes_are_kept(name):
    k, forest, y = make(name, DYADIC[name]), random_forest(200), random_signs(200)
    slow, p = twin_of(k(forest)), tk.Perceptron(k, predict_with="last")
    slow.learn(range(200), y.tolist())
    p.partial_fit(forest, y)
    kept = [forest[i] for i, _ in slow.mistakes]
    distinct = tk.Forest.from_brackets([str(tree) for tree in kept]).n_distinct
    assert (p.model.n_trees, p.model.n_nodes) == (p.n_mistakes, distinct)
    assert p.n_mistakes == len(kept) < 200
    np.testing.assert_array_equal(
        p.model.decision_function(forest), p.decision_function(forest)
    )


def test_a_learner_of_many_outputs_can_be_stored():
    forest = tk.Forest.from_brackets([f"(S (A a{i}) (B b))" for i in range(12)])
    p = tk.Perceptron(tk.SubsetTreeKernel(0.4), n_outputs=12)
    p.partial_fit(forest, 2.0 * np.eye(12) - 1)
    twin = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(
        twin.decision_function(forest), p.decision_function(forest)
    )


@every_vote
def test_who_has_learnt_nothing_scores_zero(vote):
    p = tk.Perceptron(tk.SubsetTreeKernel(), predict_with=vote)
    assert mistakes(p, [], []) == p.n_mistakes == 0
    scores = p.decision_function(["(S a)", "(S b)"])
    assert (scores.shape, scores.any()) == ((2,), False)
    assert p.decision_function([]).shape == (0,)


@every_vote
def test_the_first_example_is_a_mistake_and_gets_a_vote(vote):
    """One mistake, then one success: two votes for the only version."""
    p = tk.Perceptron(tk.SubsetTreeKernel(1.0), predict_with=vote)
    assert mistakes(p, ["(S a)", "(S a)"], [-1, -1]) == 1
    score = p.decision_function(["(S a)"])[0]
    assert score in {"last": [-1], "average": [-2, -1], "vote": [-2]}[vote]


def test_worked_votes():
    """Mistakes on the first, third and fourth; 2 votes, then 1, then 1.

    With K(a, a) = 1, K(b, b) = 3, K(a, b) = 1 for (A a) and (S (A a)): versions are
    +a; +a -b; +a -b +b.  Their scores are 1, 0, 1 of a, and 1, -2, 1 of b.
    """
    a, b = "(A a)", "(S (A a))"
    k = tk.SubsetTreeKernel(1.0)
    np.testing.assert_array_equal(k([a, b]), [[1, 1], [1, 3]])
    stream, y = [a, a, b, b], [1, 1, -1, 1]
    wanted = {"last": [1, 1], "average": [3, 1], "vote": [3, 2]}
    for vote, scores in wanted.items():
        p = tk.Perceptron(k, predict_with=vote)
        assert mistakes(p, stream, y) == 3
        found = p.decision_function([a, b])
        assert found.tolist() in (scores, [score / 4 for score in scores])


@every_kernel
@every_vote
def test_pickled_learners_go_on_where_they_were(name, vote):
    k, forest, y = make(name, DYADIC[name]), random_forest(100), random_signs(100)
    p = tk.Perceptron(k, predict_with=vote)
    p.partial_fit(forest[:60], y[:60])
    twin = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(
        twin.decision_function(forest), p.decision_function(forest)
    )
    assert twin.n_mistakes == p.n_mistakes
    assert mistakes(twin, forest[60:], y[60:]) == mistakes(p, forest[60:], y[60:])
    np.testing.assert_array_equal(
        twin.decision_function(forest), p.decision_function(forest)
    )


@every_vote
def test_progress_goes_up_and_changes_nothing(vote):
    k, forest, y = tk.SubsetTreeKernel(0.5), random_forest(300), random_signs(300)
    p, watched = (
        tk.Perceptron(k, predict_with=vote),
        tk.Perceptron(k, predict_with=vote),
    )
    steps: list[tuple[int, int]] = []
    n_mistakes = mistakes(
        watched, forest, y, progress=lambda done, total: steps.append((done, total))
    )
    assert n_mistakes == mistakes(p, forest, y)
    assert steps == sorted(steps)
    assert steps[-1] == (300, 300)
    np.testing.assert_array_equal(
        watched.decision_function(forest), p.decision_function(forest)
    )


@pytest.mark.slow
@every_vote
def test_an_interrupted_lesson_leaves_what_was_learnt_before(vote):
    """The state is that after some first part of the stream, and learning goes on."""

    class StopHereError(Exception):
        pass

    def progress(done: int, total: int) -> None:
        if done >= 100:
            raise StopHereError

    k, forest, y = tk.SubsetTreeKernel(0.5), random_forest(300), random_signs(300)
    p = tk.Perceptron(k, predict_with=vote)
    with pytest.raises(StopHereError):
        p.partial_fit(forest, y, progress=progress)
    found, x = p.decision_function(forest), range(300)
    slow = twin_of(k(forest))
    for done in range(301):
        wanted = np.array(slow.score(x, vote)) if slow.votes else np.zeros(300)
        for divisor in {1, max(1, done)}:
            if np.allclose(found * divisor, wanted, rtol=1e-12, atol=1e-12):
                assert p.n_mistakes == len(slow.mistakes)
                again = tk.Perceptron(k, predict_with=vote)
                again.partial_fit(forest[:done], y[:done])
                assert mistakes(p, forest, y) == mistakes(again, forest, y)
                np.testing.assert_array_equal(
                    p.decision_function(forest), again.decision_function(forest)
                )
                return
        if done < 300:
            slow.learn([done], [int(y[done])])
    pytest.fail("the state is that of no first part of the stream")


INTERRUPTED = """
import random, signal, sys, time
import treekernel_rs as tk

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below "pytest &"

def tree(n):
    children = [[] for _ in range(n)]
    for node in range(1, n):
        children[random.randrange(max(0, node - 4), node)].append(node)
    made = [None] * n
    for node in reversed(range(n)):
        label = random.choice("ab")
        made[node] = "(" + label + "".join(made[c] for c in children[node]) + ")"
    return made[0]

random.seed(0)
forest = tk.Forest.from_brackets([tree(60) for _ in range(8_000)])
y = [random.choice([-1, 1]) for _ in range(8_000)]
p = tk.Perceptron(getattr(tk, sys.argv[1])(0.1, normalize=True))
print("ready", flush=True)
try:
    p.partial_fit(forest, y)
except KeyboardInterrupt:
    when = time.time(), time.process_time()
    usable = p.n_mistakes > 0 and abs(p.decision_function(forest[:10])).max() < 1e300
    print("interrupted" if usable else "broken", *when, flush=True)
else:
    print("finished", flush=True)
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("name", ["PartialTreeKernel", "ElasticTreeKernel"])
def test_control_c_ends_a_long_lesson_within_a_second(name):
    assert seconds_until_interrupted(INTERRUPTED, name, after=0.3) < 1.2


# --- Learning from trees and vectors ------------------------------------------------


def vectors(n: int, seed: int = 0) -> np.ndarray:
    """Return small whole numbers, most of them 0: powers of sums of them are exact."""
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, (n, 6)).astype(float) * (rng.random((n, 6)) < 0.5)


def polynomial(a: np.ndarray, degree: int, coef0: float, gamma: float) -> np.ndarray:
    return (gamma * (a @ a.T) + coef0) ** degree


def layouts(x: np.ndarray) -> dict:
    made = {"dense": x, "columns first": np.asfortranarray(x)}
    made["float32"] = x.astype(np.float32)
    sparse = pytest.importorskip("scipy.sparse")
    made["CSR matrix"] = sparse.csr_matrix(x)
    made["CSR array"] = sparse.csr_array(x)
    return made


@every_vote
@pytest.mark.parametrize("mix", [1.0, 0.75, 0.25, 0.0])
@pytest.mark.parametrize(
    ("degree", "more"),
    [(3, {"coef0": 1.0}), (1, {"coef0": 0.0}), (2, {"coef0": 0.5, "gamma": 0.25})],
)
def test_trees_and_vectors_are_learnt_together(vote, mix, degree, more):
    k, forest, y = tk.SubsetTreeKernel(0.5), random_forest(150), random_signs(150)
    x = vectors(150)
    poly = polynomial(x, degree, more["coef0"], more.get("gamma", 1.0))
    slow = twin_of(mix * k(forest) + (1 - mix) * poly)
    n_mistakes = slow.learn(range(100), y[:100].tolist())
    for layout in layouts(x).values():
        p = tk.Perceptron(
            k,
            predict_with=vote,
            vectors=tk.kernels.VectorPolynomial(degree, **more),
            mix=mix,
        )
        found = mistakes(p, forest[:60], y[:60], layout[:60])
        found += mistakes(p, forest[60:100], y[60:100], X_vec=layout[60:100])
        assert found == p.n_mistakes == n_mistakes
        assert_votes_alike(p, slow, vote, forest, range(150), layout)


@every_kernel
def test_vectors_go_with_every_kernel(name):
    k, forest, y = make(name, DYADIC[name]), random_forest(80), random_signs(80)
    x = vectors(80)
    slow = twin_of(0.5 * k(forest) + 0.5 * polynomial(x, 3, 1.0, 1.0))
    poly = tk.kernels.VectorPolynomial(3, coef0=1.0)
    p = tk.Perceptron(k, predict_with="vote", vectors=poly, mix=0.5)
    assert mistakes(p, forest, y, x) == slow.learn(range(80), y.tolist())
    assert_votes_alike(p, slow, "vote", forest, range(80), x)
    twin = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(
        twin.decision_function(forest, x), p.decision_function(forest, x)
    )


def test_only_the_tree_kernel_is_normalized():
    k, forest = tk.SubsetTreeKernel(normalize=True), random_forest(60, least=2)
    y, x = random_signs(60), vectors(60)
    slow = twin_of(0.5 * quietly(k, forest) + 0.5 * polynomial(x, 2, 1.0, 1.0))
    poly = tk.kernels.VectorPolynomial(2, coef0=1.0)
    p = tk.Perceptron(k, predict_with="last", vectors=poly, mix=0.5)
    learn_beside(p, slow, forest, y, range(60), x)
    assert_votes_alike(p, slow, "last", forest, range(60), x)


def test_the_polynomial_kernel_s_parameters():
    poly = tk.kernels.VectorPolynomial(3, coef0=1.0)
    assert (poly.degree, poly.coef0) == (3, 1.0)
    assert (
        tk.kernels.VectorPolynomial(3, coef0=1.0)
        == poly
        != tk.kernels.VectorPolynomial(2, coef0=1.0)
    )
    names = {**vars(tk.kernels), "tk": tk, "treekernel_rs": tk}
    for twin in (eval(repr(poly), names), pickle.loads(pickle.dumps(poly))):
        assert twin == poly


# --- Wrong arguments ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *[("predict_with", value) for value in ("mean", "", "Last", None, 3)],
        *[("mix", value) for value in (-0.1, 1.5, math.nan, math.inf, "half")],
        *[("vectors", value) for value in (5, "poly", tk.SubsetTreeKernel())],
        *[("kernel", value) for value in (5, None, "SubsetTreeKernel")],
    ],
)
def test_a_wrong_parameter_is_refused_by_name(parameter, value):
    arguments = {"kernel": tk.SubsetTreeKernel(), parameter: value}
    if parameter == "mix":
        arguments["vectors"] = tk.kernels.VectorPolynomial(3, coef0=1.0)
    with pytest.raises(WRONG, match=parameter) as caught:
        tk.Perceptron(**arguments)
    if value in ("mean", "Last", -0.1, 1.5):
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        *[("degree", value) for value in (0, -1, 1.5, math.nan, "3", None)],
        *[("coef0", value) for value in (math.nan, math.inf, "1", None)],
        *[("gamma", value) for value in (math.nan, math.inf, "1")],
    ],
)
def test_a_wrong_parameter_of_the_polynomial_is_refused_by_name(parameter, value):
    with pytest.raises(WRONG, match=parameter):
        tk.kernels.VectorPolynomial(**{"degree": 3, "coef0": 1.0, parameter: value})


BAD_Y = {
    "too few": [1],
    "too many": [1, 1, -1],
    "zero": [0, 1],
    "two": [2, -1],
    "not a number": [math.nan, 1.0],
    "half": [0.5, 1.0],
    "strings": ["yes", "no"],
    "a matrix": [[1], [-1]],
}


@pytest.mark.parametrize("bad", BAD_Y.values(), ids=BAD_Y)
def test_a_wrong_y_is_refused_and_nothing_is_learnt(bad):
    p = tk.Perceptron(tk.SubsetTreeKernel())
    p.partial_fit(["(S a)"], [1])
    with pytest.raises(WRONG, match=r"\by\b"):
        p.partial_fit(["(S b)", "(S c)"], bad)
    assert p.n_mistakes == 1
    assert p.decision_function(["(S b)", "(S c)"]).tolist() == [0, 0]


@pytest.mark.parametrize("kind", [list, tuple, np.int8, np.int64, np.float32, float])
def test_signs_may_be_numbers_of_any_type(kind):
    y = kind([1, -1]) if kind in (list, tuple) else np.array([1, -1], kind)
    p = tk.Perceptron(tk.SubsetTreeKernel())
    assert mistakes(p, ["(S a)", "(S b)"], y) == 2


def test_wrong_vectors_are_refused_by_name():
    forest, y = ["(S a)", "(S b)"], [1, -1]
    good = np.array([[1.0, 2.0], [3.0, 4.0]])
    wrong = {
        "too few rows": good[:1],
        "one dimension": good[0],
        "not a number": np.array([[1.0, math.nan], [3.0, 4.0]]),
        "infinite": np.array([[1.0, math.inf], [3.0, 4.0]]),
        "missing": None,
        "strings": np.array([["a", "b"], ["c", "d"]]),
    }
    poly = tk.kernels.VectorPolynomial(3, coef0=1.0)
    p = tk.Perceptron(tk.SubsetTreeKernel(), vectors=poly, mix=0.5)
    for bad in wrong.values():
        with pytest.raises(WRONG, match="X_vec"):
            p.partial_fit(forest, y, bad)
        with pytest.raises(WRONG, match="X_vec"):
            p.decision_function(forest, bad)
    assert p.n_mistakes == 0
    p.partial_fit(forest, y, good)
    for call in (
        lambda x: p.partial_fit(forest, y, x),
        lambda x: p.decision_function(forest, x),
    ):
        with pytest.raises(ValueError, match="X_vec"):
            call(np.ones((2, 3)))  # another number of columns than before
    with pytest.raises(ValueError, match="X_vec"):
        tk.Perceptron(tk.SubsetTreeKernel()).partial_fit(forest, y, good)
