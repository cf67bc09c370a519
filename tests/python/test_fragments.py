"""Top fragments against all fragments, and what estimators say of themselves."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from itertools import combinations

import kernel_oracle as ko
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treekernel_rs as tk

BY = {"largest": lambda w: w, "smallest": lambda w: -w, "absolute": abs}
KERNELS = {
    "SubsetTreeKernel": {"leaf_weight": [0.0, 0.4]},
    "SubtreeKernel": {"leaf_weight": [0.0, 0.4]},
    "PartialTreeKernel": {
        "mu": [0.4, 1.0],
        "leaf_factor": [1.0, 0.0, 4.0],
        "max_children": [None, 1, 2],
    },
    "ElasticTreeKernel": {},
    "SubpathKernel": {},
}


def all_weights(name, parameters, trees, alphas, *, normalize=False) -> dict:
    """Give every fragment the weight of an occurrence, and what makes it up.

    A vector holds the root of what a pair of occurrences weighs, once for each of them;
    a score has one root from each side.
    """
    vector = ko.VECTORS[name]
    weights: Counter = Counter()
    scale: Counter = Counter()
    for tree, alpha in zip(trees, alphas, strict=True):
        features = vector(tree, **parameters)
        if normalize:
            own = ko.dot(features, features)
            alpha = alpha / math.sqrt(own) if own else 0.0
        for fragment, value in features.items():
            term = alpha * value * root(fragment, parameters)
            weights[fragment] += term
            scale[fragment] += abs(term)
    return {f: (w, scale[f]) for f, w in weights.items()}


def is_leaf(fragment) -> bool:
    return fragment[0] == "leaf" and isinstance(fragment[1], str)


def root(fragment, parameters) -> float:
    if "mu" in parameters:
        leaves = sum(1 for node in ko.nodes(fragment) if not node[1])
        power = math.sqrt(parameters["mu"]) ** len(ko.nodes(fragment))
        return power * parameters["decay"] ** leaves
    if "leaf_weight" not in parameters:
        return math.sqrt(parameters["decay"]) ** size(fragment, parameters)
    if is_leaf(fragment):
        return math.sqrt(parameters.get("leaf_weight", 0.0))
    return math.sqrt(parameters["decay"]) ** size(fragment, parameters)


def size(fragment, parameters) -> int:
    """Count productions; of partial and elastic trees and of paths nodes."""
    if "leaf_weight" not in parameters:
        is_path = isinstance(fragment[-1], str)
        return len(fragment) if is_path else len(ko.nodes(fragment))
    if is_leaf(fragment):
        return 0
    return sum(1 for node in ko.nodes(fragment) if node[1])


def shown(fragment) -> str:
    if fragment[0] != "leaf" and isinstance(fragment[-1], str):
        for label in reversed(fragment):
            fragment = (label, (fragment,) if isinstance(fragment[-1], tuple) else ())
    return oracle.show((fragment[1], ()) if is_leaf(fragment) else fragment)


def same_text(text: str) -> str:
    return tk.Forest.from_brackets([text]).to_brackets()[0]


alphas_of = st.sampled_from([1.0, -1.0, 1.0, -1.0, 0.5, -0.75, 2.0, 0.0])


@st.composite
def models(draw):
    name = draw(st.sampled_from(list(KERNELS)))
    parameters = {"decay": draw(st.sampled_from([1.0, 0.5, 0.4, 0.9]))}
    for parameter, values in KERNELS[name].items():
        parameters[parameter] = draw(st.sampled_from(values))
    trees = draw(ko.small_forests)
    alphas = draw(st.lists(alphas_of, min_size=len(trees), max_size=len(trees)))
    return name, parameters, trees, alphas


@given(
    models(),
    st.booleans(),
    st.sampled_from(list(BY)),
    st.integers(0, 4),
    st.none() | st.integers(0, 4),
)
def test_top_fragments_are_those_of_the_list_of_all(model, normalize, by, low, high):
    name, parameters, trees, alphas = model
    weights = all_weights(name, parameters, trees, alphas, normalize=normalize)
    known = {same_text(shown(f)): (f, *w) for f, w in weights.items()}
    assert len(known) == len(weights)
    dag = tk.DagModel(getattr(tk, name)(**parameters, normalize=normalize))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # trees without a kernel of their own
        dag.add([oracle.show(tree) for tree in trees], alphas)
    value = BY[by]
    wanted = sorted(
        (
            value(w)
            for f, (w, scale) in weights.items()
            if value(w) > 1e-12 * scale
            and low <= size(f, parameters) <= (math.inf if high is None else high)
        ),
        reverse=True,
    )
    total = max((s for _, s in weights.values()), default=1.0) or 1.0
    for k in sorted({0, 1, 2, 3, 5, 8, len(wanted), len(wanted) + 3, 10_000}):
        found = dag.top_fragments(k, by=by, min_size=low, max_size=high)
        texts = [same_text(str(f.tree)) for f in found]
        assert len(set(texts)) == len(texts) <= k
        # Sums that are 0 but for rounding may come at the end.
        sure = [f for f in found if abs(f.weight) > 1e-12 * total]
        expected = [w for w in wanted[:k] if w > 1e-12 * total]
        np.testing.assert_allclose(
            [value(f.weight) for f in sure], expected, rtol=1e-9, atol=1e-12 * total
        )
        for f, text in zip(found, texts, strict=True):
            fragment, weight, scale = known[text]
            assert f.weight == pytest.approx(weight, rel=1e-9, abs=1e-12 * scale)
            assert f.size == size(fragment, parameters)
            assert f.output is None


@given(models(), ko.small_trees)
def test_a_score_is_the_sum_of_its_fragments(model, tree):
    name, parameters, trees, alphas = model
    dag = tk.DagModel(getattr(tk, name)(**parameters))
    dag.add([oracle.show(t) for t in trees], alphas)
    # Of each side one root: without it a vector counts occurrences, with their gaps.
    flat = (
        {**parameters, "leaf_weight": 1.0}
        if "leaf_weight" in parameters
        else parameters
    )
    vector = ko.VECTORS[name](tree, **flat)
    times = {same_text(shown(f)): n / root(f, flat) for f, n in vector.items()}
    every = dag.top_fragments(10**6, by="absolute")
    terms = [f.weight * times.get(same_text(str(f.tree)), 0) for f in every]
    slack = 1e-10 * (1 + math.fsum(map(abs, terms)))
    assert (
        abs(dag.decision_function([oracle.show(tree)])[0] - math.fsum(terms)) <= slack
    )


@pytest.mark.parametrize("max_children", [1, 2, 3, None])
@pytest.mark.parametrize(
    "text", ["(a (b) (b) (b) (b))", "(a (b) (c) (d) (e))", "(a (b c) (b c) (b c))"]
)
def test_fragments_have_no_more_children_than_the_kernel_takes(text, max_children):
    """Random trees are too small for that, as a rule."""
    parameters = {"decay": 0.4, "mu": 1.0, "leaf_factor": 1.0}
    parameters["max_children"] = max_children
    weights = all_weights("PartialTreeKernel", parameters, oracle.parse(text), [1.0])
    dag = tk.DagModel(tk.PartialTreeKernel(**parameters))
    dag.add([text], [1.0])
    found = {same_text(str(f.tree)): f.weight for f in dag.top_fragments(1_000)}
    assert found == pytest.approx(
        {same_text(shown(f)): w for f, (w, _) in weights.items()}
    )


def test_equal_weights_are_no_trouble_however_many_there_are():
    """2^40 fragments and more, all of weight 1: the search goes down to k of them."""
    tree = "(S" + "(A (B b))" * 40 + ")"
    dag = tk.DagModel(tk.SubsetTreeKernel(1.0))
    dag.add([tree], [1.0])
    found = dag.top_fragments(50, max_states=10_000)
    assert len({str(f.tree) for f in found}) == 50
    assert [f.weight for f in found[:3]] == [40.0, 40.0, 40.0]
    assert {f.weight for f in found[3:]} == {1.0}
    assert [f.size for f in found] == [1, 1, 2, *sorted(f.size for f in found[3:])]


def test_the_same_search_has_the_same_answer():
    rng = np.random.default_rng(0)
    lines = [f"(S (A {a}) (B {b}) (C (A {b})))" for a in "xyz" for b in "xyz"]
    signs = rng.choice([-1.0, 1.0], len(lines))
    found = []
    for _ in range(2):
        dag = tk.DagModel(tk.SubsetTreeKernel(1.0))
        dag.add(lines, signs)
        found.append(list(map(str, dag.top_fragments(12))))
    assert found[0] == found[1]


def test_a_limit_ends_the_search_with_an_error():
    """Whatever is decided of the many places, all but the last one cancels."""
    rng = np.random.default_rng(0)
    lines = [
        "(S" + "".join(f"(X{i} {rng.integers(2)})" for i in range(24)) + ")"
        for _ in range(200)
    ]
    dag = tk.DagModel(tk.SubsetTreeKernel(1.0))
    dag.add(lines, rng.choice([-1.0, 1.0], 200))
    with pytest.raises(RuntimeError, match="not certain after 5 states of the search"):
        dag.top_fragments(20, min_size=10, max_states=5)
    assert len(dag.top_fragments(20, max_size=2)) == 20


@pytest.mark.parametrize("shape", ["deep", "wide", "wide words"])
def test_large_trees_are_no_trouble(shape):
    n = 20_000
    tree = {
        "deep": "(A " * n + "a" + ")" * n,
        "wide": "(S" + "(A a)" * n + ")",
        "wide words": "(S" + " a" * n + "(A a))",
    }[shape]
    dag = tk.DagModel(tk.SubsetTreeKernel(0.5))
    dag.add([tree], [1.0])
    best = dag.top_fragments(3)
    assert best[0].weight == {"deep": n - 1, "wide": n, "wide words": 1}[shape] / 2


def test_outputs_are_models_of_their_own():
    rng = np.random.default_rng(0)
    lines = [f"(S (A {a}) (B {b}))" for a in "xyz" for b in "xyz"]
    alphas = rng.normal(size=(len(lines), 3))
    kernel = tk.SubsetTreeKernel(0.4)
    dag = tk.DagModel(kernel, 3)
    dag.add(lines, alphas)
    found = dag.top_fragments(5, by="absolute")
    assert [f.output for f in found] == [0] * 5 + [1] * 5 + [2] * 5
    for j in range(3):
        single = tk.DagModel(kernel)
        single.add(lines, alphas[:, j])
        own = dag.top_fragments(5, by="absolute", output=j)
        assert own == found[5 * j : 5 * j + 5]
        wanted = single.top_fragments(5, by="absolute")
        assert [(f.tree, f.weight) for f in own] == [(f.tree, f.weight) for f in wanted]
        np.testing.assert_allclose(
            dag.contributions(lines[0], output=j), single.contributions(lines[0])
        )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": -1}, ValueError, "k must be at least 0"),
        ({"k": 1.5}, TypeError, "k must be an int"),
        ({"by": "size"}, ValueError, "by must be 'largest', 'smallest' or 'absolute'"),
        ({"output": 1}, ValueError, "output must be from 0 to 0, got 1"),
        ({"min_size": -1}, ValueError, "min_size must be at least 0"),
        ({"max_size": 2**63}, ValueError, "max_size must be at least 0 and below"),
        ({"max_states": True}, TypeError, "max_states must be an int"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(options, error, message):
    dag = tk.DagModel(tk.SubsetTreeKernel())
    dag.add(["(A a)"], [1.0])
    with pytest.raises(error, match=message):
        dag.top_fragments(**options)


@pytest.mark.parametrize("name", KERNELS)
def test_an_empty_model_has_no_fragments(name):
    assert tk.DagModel(getattr(tk, name)()).top_fragments(3) == []


PT, ET = tk.PartialTreeKernel(0.4, 0.4), tk.ElasticTreeKernel(0.4)


@pytest.mark.parametrize("kernel", [PT, ET])
@pytest.mark.parametrize("shape", ["deep", "wide", "wide words"])
def test_large_trees_are_no_trouble_for_parts(kernel, shape):
    n = 20_000 if kernel is PT else 300
    tree = {
        "deep": "(A " * n + "a" + ")" * n,
        "wide": "(S" + "(A a)" * n + ")",
        "wide words": "(S" + "".join(f"(w{i % 97})" for i in range(n)) + "(A a))",
    }[shape]
    dag = tk.DagModel(kernel)
    dag.add([tree], [1.0])
    best = dag.top_fragments(3, max_size=2)
    assert len(best) == 3
    single = 0.4 * 0.16 if kernel is PT else 0.4
    most = {"deep": n, "wide": n, "wide words": -(-n // 97)}[shape]
    if kernel is PT:
        assert best[0].weight == pytest.approx(most * single)
    assert best[0].weight >= most * single * (1 - 1e-12)


def test_weights_beyond_floats_are_refused():
    dag = tk.DagModel(tk.SubsetTreeKernel())
    dag.add(["(A a)", "(A b)", "(A c)"], [1e308, 1e308, -1e308])
    with pytest.raises(ValueError, match="whose sum a float can hold"):
        dag.top_fragments(1)


# --- Estimators ---------------------------------------------------------------------


def corpus(n_classes: int) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(90) % n_classes
    words = ["who", "what", "where", "when"]
    lines = [
        f"(S (W {words[c]}) (X (N {rng.choice(list('abcd'))}) (V {words[-c]})))"
        for c in y
    ]
    return lines, np.array(["HUM", "ENTY", "LOC", "NUM"])[y]


def classifiers():
    from sklearn.svm import SVC  # noqa: F401

    sst = tk.SubsetTreeKernel(0.4, normalize=True)
    return {
        "svc": tk.TreeSVC(sst),
        "svc, ovr": tk.TreeSVC(sst, multi_class="ovr"),
        "perceptron": tk.TreePerceptron(sst, random_state=0),
        "perceptron, last": tk.TreePerceptron(sst, "last", random_state=0),
    }


every_classifier = pytest.mark.parametrize(
    "name", ["svc", "svc, ovr", "perceptron", "perceptron, last"]
)


@every_classifier
def test_contributions_of_two_classes_are_those_to_the_decision(name):
    pytest.importorskip("sklearn")
    lines, y = corpus(2)
    clf = classifiers()[name].fit(lines, y)
    constant = getattr(clf, "intercept_", [0.0])[0]
    for line, score in zip(lines[:5], clf.decision_function(lines[:5]), strict=True):
        shares = clf.contributions(line)
        assert shares.sum() + constant == pytest.approx(score, abs=1e-9)
        np.testing.assert_array_equal(clf.contributions(line, clf.classes_[1]), shares)
        np.testing.assert_array_equal(clf.contributions(line, clf.classes_[0]), -shares)
    assert {f.output for f in clf.top_fragments(3)} == {clf.classes_[1]}


@every_classifier
def test_fragments_that_speak_for_the_first_of_two_classes_speak_against_the_second(
    name,
):
    pytest.importorskip("sklearn")
    lines, y = corpus(2)
    clf = classifiers()[name].fit(lines, y)
    first, second = clf.classes_
    assert clf.top_fragments(9, label=second) == clf.top_fragments(9)
    found = clf.top_fragments(9, label=first)
    against = clf.top_fragments(9, label=second, by="smallest")
    assert {f.output for f in found} == {first}
    assert [(str(f.tree), f.weight) for f in found] == [
        (str(f.tree), -f.weight) for f in against
    ]
    for unknown in ("DESC", (first, second)):
        for ask in (clf.top_fragments, clf.contributions):
            with pytest.raises(ValueError, match=f"label must be one of {first}, "):
                ask(1 if ask == clf.top_fragments else lines[0], label=unknown)


@every_classifier
def test_contributions_of_classes_are_those_to_their_decision(name):
    pytest.importorskip("sklearn")
    lines, y = corpus(4)
    clf = classifiers()[name].fit(lines, y)
    forest = tk.Forest.from_brackets(lines)
    raw = clf._model().decision_function(forest[:5]) - clf._model().intercept
    if name == "svc":
        pairs = list(combinations(range(4), 2))
        signs = np.array([[(i == c) - (j == c) for c in range(4)] for i, j in pairs])
        raw = raw @ signs
    for i, label in enumerate(clf.predict(lines[:5])):
        for c, name_of in enumerate(clf.classes_):
            shares = clf.contributions(forest[i], name_of)
            assert shares.sum() == pytest.approx(raw[i, c], abs=1e-9)
        np.testing.assert_array_equal(
            clf.contributions(lines[i]), clf.contributions(lines[i], label)
        )
        tk.draw(forest[i], weights=clf.contributions(forest[i]))
    with pytest.raises(ValueError, match=r"label must be one of .*, got 'DESC'"):
        clf.contributions(lines[0], "DESC")
    with pytest.raises(ValueError, match="label must be one of"):
        clf.top_fragments(2, label="DESC")


def test_pairs_of_classes_are_named():
    pytest.importorskip("sklearn")
    lines, y = corpus(3)
    svc = classifiers()["svc"].fit(lines, y)
    found = svc.top_fragments(2)
    assert [f.output for f in found[::2]] == list(combinations(svc.classes_, 2))
    pair = found[2].output
    assert svc.top_fragments(2, label=pair) == found[2:4]
    shares = svc.contributions(lines[0], pair)
    score = svc.model_.decision_function(lines[:1])[0, 1] - svc.intercept_[1]
    assert shares.sum() == pytest.approx(score)
    assert str(found[0]).startswith("ENTY/HUM  +")


def test_votes_have_no_fragments():
    pytest.importorskip("sklearn")
    lines, y = corpus(2)
    clf = tk.TreePerceptron(tk.SubsetTreeKernel(), "vote").fit(lines, y)
    for ask in (clf.top_fragments, lambda: clf.contributions(lines[0])):
        with pytest.raises(ValueError, match="a vote is not a sum over fragments"):
            ask()


def test_several_columns_of_weights_are_told_to_be_chosen_from():
    with pytest.raises(ValueError, match="choose a column"):
        tk.draw("(A a)", np.zeros((2, 3)))


def test_a_class_of_a_classifier_by_pairs_has_fragments_of_its_sums():
    """`contributions` of a class are the sum over its pairs; so are its fragments."""
    X = [
        "(S (A a) (B b))",
        "(S (A a) (C c))",
        "(S (B b) (D d))",
        "(S (B b))",
        "(S (D d))",
    ]
    svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, ["x", "x", "y", "y", "z"])
    sums = Counter()
    for pair in combinations("xyz", 2):
        for fragment in svc.top_fragments(1000, by="absolute", label=pair):
            sign = (pair[0] == "y") - (pair[1] == "y")
            sums[str(fragment.tree)] += sign * fragment.weight
    found = svc.top_fragments(1000, by="absolute", label="y")
    assert {f.output for f in found} == {"y"}
    weights = {str(f.tree): f.weight for f in found}
    expected = {name: w for name, w in sums.items() if abs(w) > 1e-12}
    assert weights.keys() >= expected.keys()
    for name, weight in weights.items():
        assert weight == pytest.approx(sums[name], abs=1e-12)
    assert svc.top_fragments(1, label="y")[0].weight == max(weights.values())


def test_an_unknown_label_is_refused_without_a_list_of_all_pairs():
    n = 50
    X = [f"(S (A{i} a))" for i in range(n)] * 3
    y = [f"c{i:02}" for i in range(n)] * 3
    svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4)).fit(X, y)
    assert svc.top_fragments(1, label="c07")[0].output == "c07"
    for label, number in (("HUM", 50), (("c00", "HUM"), 1225)):
        with pytest.raises(ValueError, match=f"{number:,} in all.*HUM") as refusal:
            svc.top_fragments(1, label=label)
        assert len(str(refusal.value)) < 200
