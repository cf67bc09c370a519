"""Models of kernels without an index: against definitions, scikit-learn and a perceptron."""

import pickle
import random

import kernel_oracle as ko
import numpy as np
import pytest
import similarity_oracle as so
from dag_oracle import DualPerceptron, mistakes
from sklearn.svm import SVC, SVR

import treekernel_rs as tk

PAIRS = {("a", "b"): 0.5, ("A", "B"): 0.25}
SST, PT = tk.SubsetTreeKernel(0.5), tk.PartialTreeKernel(0.5, 0.5)


def starts_alike(x: str, y: str) -> float:
    return 1.0 if x == y else 0.25 * (x[0] == y[0])


def dot(vector, **parameters):
    return lambda a, b: ko.dot(vector(a, **parameters), vector(b, **parameters))


sst = dot(ko.subset_tree, decay=0.5)
pt = dot(ko.partial_tree, decay=0.5, mu=0.5)


def similar(a, b):
    return so.smoothed(a, b, so.table(PAIRS), decay=0.5, mu=0.5)


def unit(kernel):
    def normalised(a, b):
        return ko.normalized(kernel(a, b), kernel(a, a), kernel(b, b))

    return normalised


#: Kernels, and their definitions.
KERNELS = {
    "product": (SST * PT, lambda a, b: sst(a, b) * pt(a, b)),
    "power": (SST**2, lambda a, b: sst(a, b) ** 2),
    "sum": (SST + SST**2, lambda a, b: sst(a, b) + sst(a, b) ** 2),
    "gaussian": (
        tk.kernels.Gaussian(PT.normalized(), gamma=0.5),
        lambda a, b: float(np.exp(-(1 - unit(pt)(a, b)))),
    ),
    "similar": (PT.replace(similarity=tk.kernels.TableSimilarity(PAIRS)), similar),
    "similar, normalised": (
        PT.replace(similarity=tk.kernels.TableSimilarity(PAIRS), normalize=True),
        unit(similar),
    ),
    "counts": (
        tk.SubtreeKernel(1.0, leaf_weight=1.0, counts="set"),
        # Each subtree weighs 1, once, and a tree has it or not.
        lambda a, b: float(len(set(ko.nodes(a)) & set(ko.nodes(b)))),
    ),
}


@pytest.fixture(params=KERNELS)
def defined(request):
    """Return a kernel, trees, and its matrix by the definition."""
    kernel, definition = KERNELS[request.param]
    rng = random.Random(3)
    trees = [small(rng, rng.randint(1, 6)) for _ in range(44)]
    trees += trees[:6]
    K = np.array([[definition(a, b) for b in trees] for a in trees])
    return kernel, tk.Forest.from_trees(trees), K


def small(rng, n):
    if n == 1:
        return (rng.choice("ab"), ())
    sizes, left = [], n - 1
    while left:
        sizes.append(rng.randint(1, left))
        left -= sizes[-1]
    return (rng.choice("AB"), tuple(small(rng, size) for size in sizes))


def assert_scores(found, K, alphas):
    size = np.abs(K) @ np.abs(alphas)
    assert (np.abs(found - K @ alphas) <= 1e-10 * size + 1e-13).all()


def test_scores_are_sums_over_support_trees(defined):
    kernel, X, K = defined
    alphas = np.random.default_rng(0).normal(size=(len(X), 2))
    model = tk.DagModel(kernel, 2)
    model.add(X[:20], alphas[:20])
    model.add(X[20:].to_brackets(), alphas[20:])
    assert not model.is_graph
    expected = model.decision_function(X, n_jobs=1)
    assert_scores(expected, K, alphas)
    np.testing.assert_array_equal(model.decision_function(X, n_jobs=2), expected)
    for tree, scores in zip(X.to_brackets(), expected, strict=True):
        np.testing.assert_array_equal(model.decision_function([tree])[0], scores)


def test_machines_are_those_of_scikit_learn(defined):
    kernel, X, K = defined
    y = np.where(np.arange(len(X)) % 5 < 2, 1, -1)
    K = 0.5 * (K + K.T)
    svc = SVC(kernel="precomputed", tol=1e-8).fit(K, y)
    dual, support = svc.dual_coef_, svc.support_
    model = tk.DagModel.from_dual(kernel, X[support.tolist()], dual, svc.intercept_)
    np.testing.assert_allclose(
        model.decision_function(X), svc.decision_function(K), atol=1e-8
    )
    own = tk.TreeSVC(kernel, solver="model", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(
        own.decision_function(X), svc.decision_function(K), atol=1e-4
    )
    values = np.arange(len(X)) % 7
    svr = SVR(kernel="precomputed", tol=1e-8).fit(K, values)
    machine = tk.TreeSVR(kernel, tol=1e-8).fit(X, values)
    np.testing.assert_allclose(machine.predict(X), svr.predict(K), atol=1e-4)


@pytest.mark.parametrize("vote", ["last", "average", "vote"])
def test_perceptrons_are_the_sums_over_their_mistakes(defined, vote):
    kernel, X, K = defined
    plain = DualPerceptron(lambda a, b: float(K[a, b]))
    own = tk.Perceptron(kernel, vote)
    for t in [*range(len(X)), *range(len(X))]:
        y = 1 if t * 7 % 5 < 2 else -1
        assert plain.follow(t, y, mistake=mistakes(own, X[[t]], [y]) == 1)
        if t == 30:
            own = pickle.loads(pickle.dumps(own))
    # In one call, it is the same perceptron.
    order = [*range(len(X))] * 2
    whole = tk.Perceptron(kernel, vote)
    whole.partial_fit(X[order], [1 if t * 7 % 5 < 2 else -1 for t in order])
    assert whole.n_mistakes == own.n_mistakes == len(plain.mistakes) > 10
    all_trees = range(len(X))
    scale, doubt = plain.scale(all_trees, vote), [0.0] * len(X)
    if vote == "vote":
        doubt = plain.doubt(all_trees)
    for found in (own.decision_function(X), whole.decision_function(X)):
        gap = np.abs(found - plain.score(all_trees, vote))
        assert (gap <= 1e-9 * np.array(scale) + 2.0 * np.array(doubt)).all()


def test_a_similarity_that_is_a_function_is_pickled_and_not_written():
    kernel = PT.replace(similarity=tk.kernels.TableSimilarity(starts_alike))
    X, y = ["(A (a) (b))", "(A (b))", "(B (b) (b))", "(B (a))"], [1, 1, -1, -1]
    model = tk.DagModel.from_dual(kernel, X, [1.0, 2.0, -1.0, -2.0])
    perceptron = tk.Perceptron(kernel, "average")
    perceptron.partial_fit(X, y)
    for one in (model, perceptron):
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(
            again.decision_function(X), one.decision_function(X)
        )
        with pytest.raises(ValueError, match="which cannot be written as JSON"):
            one.to_arrays()


@pytest.mark.filterwarnings("ignore:.*positive semidefinite:RuntimeWarning")
def test_dense_similarities_give_a_tree_the_same_score_in_every_batch():
    rng = random.Random(5)
    names = [f"w{i}" for i in range(20)]
    vectors = {name: [rng.gauss(0, 1) for _ in range(5)] for name in names}
    trees = [f"(S (w{rng.randrange(20)}) (w{rng.randrange(20)}))" for _ in range(60)]
    alphas = [rng.gauss(0, 1) for _ in range(10)]
    for threshold in (None, 0.3):
        similarity = tk.kernels.VectorSimilarity(vectors, threshold=threshold)
        for normalize in (False, True):
            kernel = PT.replace(similarity=similarity, normalize=normalize)
            model = tk.DagModel.from_dual(kernel, trees[:10], alphas)
            scores = model.decision_function(trees)
            alone = np.concatenate([model.decision_function([tree]) for tree in trees])
            np.testing.assert_array_equal(scores, alone)
