"""Views and kernels of views, against numpy by hand and scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import treekernel_rs as tk
from treekernel_rs.view_kernels import ViewIndex

SST = tk.SubsetTreeKernel(0.4)
PT = tk.PartialTreeKernel(normalize=True)
TREES = ["(S (A a) (B b))", "(S (A a) (B c))", "(T (A a) (B b))", "(T (A a) (B c))"] * 4
OTHERS = ["(Q (A a))", "(Q (B b))", "(Q (A b))", "(Q (C b) (A a))"] * 4
NUMBERS = np.random.default_rng(0).normal(size=(16, 3))
Y = np.array([0, 0, 1, 1] * 4)
PAIRS = [("(A:1 a)", "(B:1 b)"), ("(A:1 a)", "(B:2 b)")] * 8


def views() -> tk.kernels.Views:
    return tk.kernels.Views(question=TREES, answer=OTHERS, numbers=NUMBERS)


def both(**more: object) -> tk.kernels.ViewKernel:
    kernels = {"question": SST, "answer": PT, "numbers": "rbf"}
    return tk.kernels.ViewKernel(kernels, **more)


def test_views_are_cut_like_arrays():
    X = views()
    assert X.shape == (len(X),) == (16,)
    mask = np.arange(16) % 3 == 0
    for index in (slice(2, 9, 2), mask, [3, -1, 3], np.array([], int), range(4)):
        some, places = X[index], np.arange(16)[index]
        assert len(some) == len(places)
        np.testing.assert_array_equal(some["numbers"], NUMBERS[places])
        assert some["question"].to_brackets() == [TREES[at] for at in places]
        again = X[index, ...]
        assert again["answer"] == some["answer"]
    assert X[-1]["question"] == X["question"][15]
    assert len(list(X)) == 16
    sparse = tk.kernels.Views(numbers=csr_matrix(NUMBERS))
    np.testing.assert_array_equal(sparse[mask]["numbers"].toarray(), NUMBERS[mask])
    again = pickle.loads(pickle.dumps(X))
    assert again["question"] == X["question"]


@pytest.mark.parametrize("index", [16, -17, 1.5, "question ", [99], [0.5]], ids=repr)
def test_what_is_no_index_is_refused(index):
    with pytest.raises((IndexError, KeyError)):
        views()[index]


@pytest.mark.parametrize("index", [np.ones(3, bool), [[0]], ["a"]], ids=repr)
def test_masks_and_arrays_of_other_shapes_are_refused(index):
    with pytest.raises(IndexError):
        views()[index]


def test_columns_are_read_by_what_they_are():
    X = tk.kernels.Views(
        a=TREES[:2],
        b=tk.Forest.from_brackets(TREES[:2]),
        c=PAIRS[:2],
        d=[1, 2],
        e=[[1, 2], [3, 4]],
        f=np.array([True, False]),
        g=pd.Series(TREES[:2]),
        h=tk.kernels.Views(x=[0, 1]),
        i=csr_matrix([[0, 1], [1, 0]]),
    )
    kinds = {name: type(column).__name__ for name, column in X.columns.items()}
    trees, rows = dict.fromkeys("abg", "Forest"), dict.fromkeys("def", "ndarray")
    others = {"c": "PairForest", "h": "Views", "i": "csr_matrix"}
    assert kinds == {**trees, **rows, **others}
    assert X["d"].shape == (2, 1)
    frame = pd.DataFrame({"question": TREES, "numbers": NUMBERS[:, 0]})
    k = tk.kernels.ViewKernel({"question": SST, "numbers": "linear"})
    np.testing.assert_array_equal(k(frame), k(tk.kernels.Views(frame)))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tk.kernels.Views(), ValueError, "at least one column"),
        (
            lambda: tk.kernels.Views(a=[1], b=[1, 2]),
            ValueError,
            "one length, got a: 1, b: 2",
        ),
        (lambda: tk.kernels.Views([1, 2]), TypeError, "a DataFrame or a mapping"),
        (lambda: tk.kernels.Views(a="(A a)"), TypeError, "a: expected a column"),
        (
            lambda: tk.kernels.Views(a=[1.0, np.nan]),
            ValueError,
            "a: expected finite numbers",
        ),
        (lambda: tk.kernels.Views(a=["(A a)", "(A"]), ValueError, "expected '\\)'"),
        (
            lambda: tk.kernels.Views(a=np.zeros((2, 2, 2))),
            ValueError,
            "one or two dimensions",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("combine", ["sum", "product"])
def test_kernels_of_views_are_those_of_numpy(combine, normalize):
    weights = {"answer": 0.5, "numbers": 2.0} if combine == "sum" else None
    k = both(combine=combine, weights=weights, normalize=normalize)
    X, parts = (
        views(),
        [SST(TREES), PT(OTHERS), pairwise_kernels(NUMBERS, metric="rbf")],
    )
    expected = (
        parts[0] + 0.5 * parts[1] + 2.0 * parts[2]
        if combine == "sum"
        else parts[0] * parts[1] * parts[2]
    )
    if normalize:
        root = np.sqrt(np.diag(expected))
        expected = expected / np.outer(root, root)
    K = k(X)
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(k(X[:5], X), expected[:5], rtol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(k.pairs(X[:8], X[8:]), np.diag(expected[:8, 8:]))
    assert k.pair(X[1], X[6]) == pytest.approx(expected[1, 6], rel=1e-12)
    assert k.gram(X, dtype=np.float32, n_jobs=2).dtype == np.float32
    out = np.empty((16, 16))
    assert k.gram(X, out=out) is out
    np.testing.assert_array_equal(out, K)
    assert np.linalg.eigvalsh(K)[0] > -1e-9


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("kernel", "metric", "more"),
    [
        ("linear", "linear", {}),
        ("cosine", "cosine", {}),
        ("rbf", "rbf", {}),
        (
            tk.kernels.VectorPolynomial(2, gamma=0.5),
            "poly",
            {"degree": 2, "gamma": 0.5},
        ),
        (lambda a, b: a @ b.T, "linear", {}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_kernels_of_vectors_are_those_of_scikit_learn(kernel, metric, more, sparse):
    if (
        sparse
        and callable(kernel)
        and not isinstance(kernel, tk.kernels.VectorPolynomial)
    ):
        pytest.skip("a callable has its own mind about sparse matrices")
    numbers = np.vstack([NUMBERS, np.zeros(3)])
    column = csr_matrix(numbers) if sparse else numbers
    k, X = tk.kernels.ViewKernel({"numbers": kernel}), tk.kernels.Views(numbers=column)
    expected = pairwise_kernels(numbers, metric=metric, **more)
    np.testing.assert_allclose(k(X), expected, atol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(k.pairs(X, X), np.diag(expected), atol=1e-12)
    assert k.pair(X[0], X[1]) == pytest.approx(expected[0, 1], abs=1e-12)


def test_parameters_are_nested_saved_and_compared():
    k = both(weights=[1.0, 0.5, 1.0])
    assert k.get_params()["question__decay"] == 0.4
    assert k.get_params()["answer"] == PT
    other = k.replace(question__decay=0.2, combine="product", weights=None)
    assert other.kernels["question"].decay == 0.2
    assert k.kernels["question"].decay == 0.4
    for each in (k, other):
        assert eval(repr(each), vars(tk.kernels)) == each
        assert pickle.loads(pickle.dumps(each)) == each
        assert tk.kernels.kernel_from_json(each.to_json()) == each
        assert each.replace() == each
    assert k != other
    assert k.replace(answer=SST).kernels["answer"] == SST
    assert k.set_params(question__decay=0.3).kernels["question"].decay == 0.3
    pairs = tk.kernels.PreferenceKernel(SST, normalize=True)
    assert (
        tk.kernels.kernel_from_json(pairs.to_json())
        == pairs
        == eval(repr(pairs), vars(tk.kernels))
    )
    for wrong in ({"numbers__gamma": 1}, {"no": 1}, {"no__decay": 1}):
        with pytest.raises(ValueError, match="has no parameter"):
            k.replace(**wrong)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (tk.kernels.ViewKernel({}), ValueError, "kernels must map"),
        (
            tk.kernels.ViewKernel({"nothing": SST}),
            ValueError,
            "no view 'nothing', only 'quest",
        ),
        (
            tk.kernels.ViewKernel({"question": "sigmoid"}),
            ValueError,
            "kernel of 'question' must",
        ),
        (tk.kernels.ViewKernel({"question": "rbf"}), TypeError, "a kernel of numbers"),
        (tk.kernels.ViewKernel({"numbers": SST}), TypeError, "a kernel of trees"),
        (
            tk.kernels.ViewKernel({"question": SST}, combine="max"),
            ValueError,
            "combine must be",
        ),
        (
            tk.kernels.ViewKernel({"question": SST}, weights=[-1]),
            ValueError,
            "weights must be",
        ),
        (
            tk.kernels.ViewKernel({"question": SST}, weights=[1, 2]),
            ValueError,
            "one per view",
        ),
        (
            tk.kernels.ViewKernel({"question": SST}, weights={"q": 1}),
            ValueError,
            "got 'q'",
        ),
        (
            tk.kernels.ViewKernel({"question": SST}, weights=[1], combine="product"),
            ValueError,
            "None for a product",
        ),
        (
            tk.kernels.ViewKernel({"numbers": lambda a, b: np.zeros(3)}),
            ValueError,
            "must return a matrix of shape",
        ),
        (
            tk.kernels.ViewKernel({"question": SST.replace(decay=2)}),
            ValueError,
            "decay must be",
        ),
        (
            tk.kernels.ViewKernel({"question": SST}, normalize="yes"),
            ValueError,
            "normalize must",
        ),
    ],
)
def test_kernels_that_do_not_fit_are_refused_in_use(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel(views())


def test_scikit_learn_takes_views():
    X = views()
    k = both(normalize=True)
    for model, name in (
        (SVC(kernel=k), "kernel__question__decay"),
        (
            make_pipeline(tk.TreeGram(k), SVC(kernel="precomputed")),
            "treegram__kernel__question__decay",
        ),
    ):
        assert model.fit(X, Y).predict(X).tolist() == Y.tolist()
        assert cross_val_score(model, X, Y, cv=2).mean() == 1.0
        search = GridSearchCV(model, {name: [0.2, 0.4]}, cv=2).fit(X, Y)
        assert search.best_score_ == 1.0
    frame = pd.DataFrame(
        {"question": TREES, "answer": OTHERS, "numbers": NUMBERS[:, 0]}
    )
    model = make_pipeline(tk.TreeGram(k), SVC(kernel="precomputed"))
    assert cross_val_score(model, frame, Y, cv=2).mean() == 1.0


def test_pairs_of_trees_are_a_view_and_an_x():
    X = tk.kernels.Views(rules=PAIRS, question=TREES)
    rules = tk.PairKernel(0.4)
    k = tk.kernels.ViewKernel({"rules": rules, "question": SST})
    np.testing.assert_allclose(k(X), rules(PAIRS) + SST(TREES))
    gram = tk.TreeGram(rules)
    np.testing.assert_array_equal(gram.fit_transform(PAIRS), rules(PAIRS))
    np.testing.assert_array_equal(gram.transform(PAIRS[:2]), rules(PAIRS[:2], PAIRS))
    model = make_pipeline(gram, SVC(kernel="precomputed"))
    forest = tk.PairForest.from_brackets(*zip(*PAIRS, strict=True))
    labels = [0, 1] * 8
    assert cross_val_score(model, forest, labels, cv=2).mean() == 1.0


def test_preference_pairs_are_dot_products_of_differences():
    numbers = np.random.default_rng(1).normal(size=(2, 9, 4))
    X = tk.kernels.Views(first=numbers[0], second=numbers[1])
    difference = numbers[0] - numbers[1]
    k = tk.kernels.PreferenceKernel("linear")
    np.testing.assert_allclose(k(X), difference @ difference.T, atol=1e-12)
    np.testing.assert_allclose(k(X[:4], X), (difference @ difference.T)[:4], atol=1e-12)
    np.testing.assert_allclose(k.diag(X), (difference**2).sum(axis=1))
    np.testing.assert_allclose(k.pairs(X, X), (difference**2).sum(axis=1))
    X = tk.kernels.Views(first=TREES[:8], second=OTHERS[:8])
    k = tk.kernels.PreferenceKernel(SST)
    K, (a, b) = k(X), (TREES[:8], OTHERS[:8])
    np.testing.assert_allclose(K, SST(a) + SST(b) - SST(a, b) - SST(b, a), atol=1e-12)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-9
    assert k.pair(X[0], X[1]) == pytest.approx(K[0, 1])
    views = tk.kernels.Views(
        first=tk.kernels.Views(t=a, u=b), second=tk.kernels.Views(t=b, u=a)
    )
    both = tk.kernels.PreferenceKernel(tk.kernels.ViewKernel({"t": SST, "u": PT}))
    expected = K + tk.kernels.PreferenceKernel(PT)(tk.kernels.Views(first=b, second=a))
    np.testing.assert_allclose(both(views), expected, atol=1e-12)


def test_a_ranker_is_a_machine_over_preference_pairs():
    trees = [f"(S (A{i % 3} a) (B{i % 5} b) (C{i % 2} c))" for i in range(20)]
    ranks = np.array([(7 * i) % 11 for i in range(20)])
    better, worse = np.nonzero(ranks[:, None] > ranks[None, :])
    forest = tk.Forest.from_brackets(trees)
    # Each preference in both directions: then no threshold is needed, and costs are half.
    X = tk.kernels.Views(
        first=forest[np.r_[better, worse]], second=forest[np.r_[worse, better]]
    )
    labels = np.repeat([1, -1], len(better))
    svc = SVC(kernel=tk.kernels.PreferenceKernel(SST), C=0.5, tol=1e-6).fit(X, labels)
    ranker = tk.TreeRanker(SST, C=1.0, tol=1e-6).fit(forest, ranks)
    scores = ranker.predict(forest)
    found = svc.decision_function(X[: len(better)])
    np.testing.assert_allclose(found, scores[better] - scores[worse], atol=1e-3)


@pytest.mark.parametrize("normalize", [False, True])
def test_an_index_has_the_bits_of_the_kernel(normalize):
    X = views()
    nested = tk.kernels.Views(both=X, first=TREES, second=OTHERS)
    kernels = [
        (both(normalize=normalize), X),
        (both(combine="product", normalize=normalize), X),
        (
            tk.kernels.ViewKernel(
                {"both": both(normalize=normalize), "first": SST}, normalize=normalize
            ),
            nested,
        ),
        (tk.kernels.PreferenceKernel(SST, normalize=normalize), nested),
    ]
    for kernel, examples in kernels:
        index = kernel.index(examples[3:])
        expected = kernel(examples[:7], examples[3:])
        np.testing.assert_array_equal(index.gram(examples[:7]), expected)
        copied = pickle.loads(pickle.dumps(index))
        for n in range(7):
            one = examples[n : n + 1]
            # The last bits of NumPy's products of vectors depend on how many there are.
            np.testing.assert_allclose(index.gram(one)[0], expected[n], rtol=1e-12)
            np.testing.assert_array_equal(copied.gram(one), index.gram(one))
        assert len(index) == 13
        assert repr(index) == f"<ViewIndex: 13 examples, {kernel!r}>"
    with pytest.raises(TypeError, match="kernel must be a kernel of views, got Subset"):
        ViewIndex(SST, X)


def test_trees_of_views_are_indexed_once(monkeypatch):
    gram = tk.TreeGram(both()).fit(views())
    expected = gram.transform(views())
    # Where a kernel were asked for a matrix, it would index Y.
    monkeypatch.setattr(type(SST), "gram", None)
    np.testing.assert_array_equal(gram.transform(views()), expected)


def test_a_kernel_of_views_that_is_changed_leaves_its_index():
    kernel, X = both(), views()
    index, expected = kernel.index(X), kernel(X, X)
    kernel.set_params(question__decay=0.9)
    np.testing.assert_array_equal(index.gram(X), expected)


def test_progress_is_told_of_every_view():
    told: list[tuple[int, int]] = []
    both().gram(views(), progress=lambda *done: told.append(done))
    assert told == sorted(told)
    assert told[-1] == (48, 48)
