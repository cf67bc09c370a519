"""Similar labels: against pairs of fragments, worked values, and the partial tree kernel."""

import json
import math
import pickle
import random
import warnings

import numpy as np
import pytest
import similarity_oracle as so
from scipy.sparse import csr_matrix

import treekernel_rs as tk

pytestmark = pytest.mark.filterwarnings("ignore:.*positive semidefinite:RuntimeWarning")


def to_brackets(tree):
    label, children = tree
    return f"({label} {' '.join(map(to_brackets, children))})"


# --- 500 random pairs against the definition ------------------------------------------


def random_tree(rng, n, names):
    if n == 1:
        return (rng.choice(names), ())
    sizes, left = [], n - 1
    while left:
        sizes.append(rng.randint(1, left))
        left -= sizes[-1]
    return (rng.choice(names), tuple(random_tree(rng, size, names) for size in sizes))


def random_parameters(rng):
    return {
        "decay": rng.choice([1.0, 0.4, rng.uniform(0.05, 1)]),
        "mu": rng.choice([1.0, 0.4, rng.uniform(0.05, 1)]),
        "leaf_factor": rng.choice([1.0, 0.0, 5.0, 0.2]),
        "max_children": rng.choice([None, None, 1, 2, 3]),
    }


def random_vectors(rng, names, n):
    vectors = {name: [rng.gauss(0, 1) for _ in range(n)] for name in names}
    vectors[rng.choice(list(names))] = [0.0] * n
    vectors.pop(rng.choice(list(names)))
    return vectors


def random_cut(rng):
    return {
        "power": rng.choice([1, 1, 2, 3]),
        "threshold": rng.choice([None, None, 0.0, 0.3, -0.5]),
        "clip": rng.random() < 0.3,
    }


def random_table(rng, names):
    pairs = {
        (x, y): rng.choice([0.0, 1.0, -1.0, rng.uniform(-1, 1)])
        for x in names
        for y in names
        if x < y and rng.random() < 0.6
    }
    return tk.kernels.TableSimilarity(pairs), so.table(pairs)


def random_cosines(rng, names):
    vectors = random_vectors(rng, names, rng.choice([2, 3, 17]))
    cut = random_cut(rng)
    classes = {name: rng.choice([0, 0, 1, None]) for name in names}
    if rng.random() < 0.3:
        expected = so.vectors(vectors, **cut)
        return tk.kernels.VectorSimilarity(vectors, **cut), expected
    expected = so.vectors(vectors, classes.get, **cut)
    if rng.random() < 0.5:
        return tk.kernels.VectorSimilarity(vectors, classes=classes, **cut), expected
    data = (list(vectors), np.array(list(vectors.values())))
    return tk.kernels.VectorSimilarity(data, classes=classes.get, **cut), expected


WORDS = ["cat::n", "dog::n", "run::v", "walk::v", "the::d"]
KELP = [
    *(f"LEX##{word}" for word in WORDS),
    "POS##NN",
    "SYNT##nsubj",
    "cow::n",
    "x",
    *(
        f"COMP##{relation}<{head},{modifier}>"
        for relation in ("nsubj", "dobj")
        for head in ("run::v", "walk::v", "*::*")
        for modifier in ("cat::n", "dog::n", "run::v")
    ),
]


def random_words(rng, _):
    vectors, cut = random_vectors(rng, [*WORDS, "cow::n"], 3), random_cut(rng)
    expected = so.vectors(vectors, so.kelp_class, so.kelp_key, **cut)
    return tk.kernels.VectorSimilarity(vectors, classes="kelp", **cut), expected


def random_compounds(rng, _):
    how = {
        "compose": rng.choice(["sum", "product", "dilation"]),
        "same_pos": rng.random() < 0.6,
        "same_relation": rng.random() < 0.4,
        "lexical": rng.random() < 0.6,
        **random_cut(rng),
    }
    vectors = random_vectors(rng, [*WORDS, "cow::n"], 3)
    return tk.kernels.ComposedSimilarity(vectors, **how), so.composed(vectors, **how)


KINDS = {
    "table": (random_table, "abcd"),
    "vectors": (random_cosines, "abcd"),
    "words": (random_words, KELP),
    "compounds": (random_compounds, KELP),
}


def close(value, expected):
    # Where similarities are negative, sums cancel.
    return value == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_500_random_pairs_agree_with_the_sum_over_pairs_of_fragments(kind):
    similar, names = KINDS[kind]
    rng = random.Random(kind)
    n_not_zero = n_negative = 0
    for _ in range(125):
        similarity, sigma = similar(rng, names)
        parameters = random_parameters(rng)
        a, b = (random_tree(rng, rng.randint(1, 7), names) for _ in range(2))
        expected = so.smoothed(a, b, sigma, **parameters)
        k = tk.PartialTreeKernel(similarity=similarity, **parameters)
        x, y = to_brackets(a), to_brackets(b)
        value = k.pair(x, y)
        assert close(value, expected)
        assert k.pair(y, x) == value
        matrix = k([x, y])
        assert close(matrix[0, 1], expected)
        assert close(matrix[0, 0], so.smoothed(a, a, sigma, **parameters))
        n_not_zero += expected != 0
        n_negative += expected < 0
    assert n_not_zero > 30
    assert n_negative > 0 or kind != "table"


# --- Worked values, and what is indefinite --------------------------------------------

VECTORS = {
    "run::v": [1, 0, 0],
    "walk::v": [0.6, 0.8, 0],
    "cat::n": [0, 0, 1],
    "dog::n": [0, 0.6, 0.8],
}


def lct(verb, noun):
    return (
        f"(LEX##{verb}::v (LEX##{noun}::n (POS##NN)(SYNT##nsubj)) "
        "(POS##VBZ)(SYNT##root))"
    )


def clct(verb, noun):
    return (
        f"(COMP##root<*::*,{verb}::v> (COMP##nsubj<{verb}::v,{noun}::n> (POS##NN)"
        f"(SYNT##nsubj)(LEX##{noun}::n)) (POS##VBZ)(SYNT##root)(LEX##{verb}::v))"
    )


def kelp(how):
    return tk.kernels.ComposedSimilarity(
        VECTORS, compose=how, lexical=False, clip=True, threshold=0.01
    )


CUT = {"classes": "kelp", "clip": True, "threshold": 0.01}
WORKED = [
    ("(N (cat))", "(N (dog))", {("cat", "dog"): 0.8}, {}, 0.135680, 0.883333),
    (
        "(run (cat) (SUBJ))",
        "(walk (dog) (SUBJ))",
        {("run", "walk"): 0.7, ("cat", "dog"): 0.8},
        {},
        0.193174,
        0.788984,
    ),
    (
        "(S (a) (x) (b))",
        "(S (c) (b))",
        {("a", "c"): 0.5, ("x", "c"): 0.25},
        {"decay": 0.5, "mu": 0.5},
        0.457031,
        0.763264,
    ),
    (
        "(S (a) (x) (b))",
        "(S (c) (b))",
        {("a", "c"): 0.5, ("x", "c"): 0.25},
        {"decay": 0.5, "mu": 0.5, "max_children": 1},
        0.453125,
        None,
    ),
    (
        "(v (big) (POS))",
        "(v (small) (POS))",
        {("big", "small"): -0.3},
        {"leaf_factor": 5},
        0.365312,
        0.364962,
    ),
    (
        "(S (A))",
        "(S (B (c)))",
        {("A", "B"): 0.6},
        {"leaf_factor": 5},
        0.184211,
        0.318633,
    ),
    (
        lct("run", "cat"),
        lct("walk", "dog"),
        tk.kernels.VectorSimilarity(VECTORS, **CUT),
        {"leaf_factor": 0.2},
        0.169709,
        0.737929,
    ),
    (clct("run", "cat"), clct("walk", "dog"), kelp("sum"), {}, 0.410730, 0.558530),
    (clct("run", "cat"), clct("walk", "dog"), kelp("product"), {}, 0.313281, None),
    (clct("run", "cat"), clct("walk", "dog"), kelp("dilation"), {}, 0.393960, None),
]


@pytest.mark.parametrize(("a", "b", "similar", "parameters", "value", "cosine"), WORKED)
def test_worked_values(a, b, similar, parameters, value, cosine):
    if isinstance(similar, dict):
        similar = tk.kernels.TableSimilarity(similar)
    k = tk.PartialTreeKernel(similarity=similar, **parameters)
    assert k.pair(a, b) == pytest.approx(value, abs=6e-7)
    assert k([a], [b])[0, 0] == pytest.approx(value, abs=6e-7)
    if cosine is not None:
        assert k.replace(normalize=True).pair(a, b) == pytest.approx(cosine, abs=6e-7)


def test_sentences_become_the_compounds_of_the_worked_value():
    def sentence(noun, verb):
        return (
            f"1\t{noun}s\t{noun}\tNOUN\tNN\t_\t2\tnsubj\t_\t_\n"
            f"2\t{verb}s\t{verb}\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
        )

    text = sentence("cat", "run") + sentence("dog", "walk")
    X = tk.readers.conllu(text=text, scheme="clct").forest
    assert tk.Forest.from_brackets([clct("run", "cat"), clct("walk", "dog")]) == X
    for how, value in (("sum", 0.410730), ("product", 0.313281)):
        k = tk.PartialTreeKernel(similarity=kelp(how))
        assert k(X)[0, 1] == pytest.approx(value, abs=6e-7)
    X = tk.readers.conllu(text=text, scheme="lct").forest
    similar = tk.kernels.VectorSimilarity(VECTORS, **CUT)
    k = tk.PartialTreeKernel(leaf_factor=0.2, similarity=similar)
    assert k(X)[0, 1] == pytest.approx(0.169709, abs=6e-7)


def angles(*degrees):
    return {
        f"w{d}": [math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees
    }


EIGHT = range(0, 360, 45)
WITNESSES = [
    (["(w0)", "(w45)", "(w90)", "(w135)"], {}, [2, -3, 3, -2], 0.125336),
    (["(w0)", "(w45)", "(w90)", "(w135)"], {"clip": True}, [2, -3, 3, -2], -0.236703),
    ([f"(N (w{d}))" for d in EIGHT], {"clip": True}, [1, -1] * 4, -0.296908),
    (["(w0)", "(w40)", "(w80)"], {}, [2, -3, 2], 0.000264),
    (["(w0)", "(w40)", "(w80)"], {"threshold": 0.5}, [2, -3, 2], -0.088644),
]


@pytest.mark.parametrize(("trees", "how", "c", "value"), WITNESSES)
def test_witnesses_of_indefiniteness(trees, how, c, value):
    similar = tk.kernels.VectorSimilarity(angles(*EIGHT, 40, 80), **how)
    K = tk.PartialTreeKernel(similarity=similar)(trees)
    c = np.array(c)
    assert c @ K @ c == pytest.approx(value, abs=6e-7)
    least = similar.smallest_eigenvalue(trees)
    assert least < -0.01 if how else least > -1e-12


def test_the_square_root_for_leaves_is_positive_where_kelps_rule_is_not():
    K = tk.PartialTreeKernel(leaf_factor=5)(["(a)", "(a (b))", "(a (c))"])
    c = np.array([2, -1, -1])
    assert c @ K @ c == pytest.approx(1.287133, abs=6e-7)


def test_the_same_lemma_across_classes_is_indefinite():
    pairs = {("x::n", "x::v"): 1, ("x::n", "y::n"): 0.8}
    similar = tk.kernels.TableSimilarity(pairs)
    trees, c = ["(x::n)", "(x::v)", "(y::n)"], np.array([5, -3, -4])
    with pytest.warns(RuntimeWarning, match="not positive semidefinite"):
        K = tk.PartialTreeKernel(similarity=similar)(trees)
    assert c @ K @ c == pytest.approx(-0.768, abs=6e-7)


def test_four_trees_with_negative_eigenvalues_are_found():
    similar = tk.kernels.VectorSimilarity(angles(*range(0, 180, 3)), clip=True)
    k, rng = tk.PartialTreeKernel(similarity=similar), random.Random(3)
    found = 0
    for _ in range(200):
        K = k([f"(N (w{3 * rng.randrange(60)}))" for _ in range(4)])
        found += np.linalg.eigvalsh(K)[0] < -1e-4
    assert found > 0


# --- Equality is PT, and 1 everywhere ignores labels ----------------------------------


@pytest.mark.parametrize("max_children", [None, 2])
@pytest.mark.parametrize("leaf_factor", [1.0, 0.0, 5.0])
def test_equality_is_the_partial_tree_kernel(max_children, leaf_factor):
    rng = random.Random(9)
    texts = [
        to_brackets(random_tree(rng, rng.randint(1, 40), "abcde")) for _ in range(60)
    ]
    k = tk.PartialTreeKernel(leaf_factor=leaf_factor, max_children=max_children)
    for similar in (
        tk.kernels.TableSimilarity({}),
        tk.kernels.TableSimilarity(lambda x, y: 0.0),
        tk.kernels.VectorSimilarity({"a": [1.0]}),
        tk.kernels.TableSimilarity({("a", "no such label"): 0.7}),
    ):
        other = k.replace(similarity=similar)
        for normalize in (False, True):
            if leaf_factor == 0 and normalize:
                continue
            pt, smoothed = (x.replace(normalize=normalize) for x in (k, other))
            np.testing.assert_allclose(smoothed(texts), pt(texts), rtol=1e-12)
            np.testing.assert_allclose(
                smoothed(texts[:9], texts[20:]), pt(texts[:9], texts[20:]), rtol=1e-12
            )
            np.testing.assert_allclose(smoothed.diag(texts), pt.diag(texts), rtol=1e-12)
            assert smoothed.pair(texts[0], texts[1]) == pt.pair(texts[0], texts[1])


def test_ones_within_classes_are_equal_labels():
    rng = random.Random(10)
    trees = [random_tree(rng, rng.randint(1, 30), "abcdef") for _ in range(40)]

    def relabelled(tree):
        return (tree[0].translate(str.maketrans("bd", "ac")), *tree[1:])

    def all_of(tree):
        return (relabelled(tree)[0], tuple(map(all_of, tree[1])))

    similar = tk.kernels.TableSimilarity({("a", "b"): 1, ("d", "c"): 1})
    k = tk.PartialTreeKernel()
    np.testing.assert_allclose(
        k.replace(similarity=similar)(list(map(to_brackets, trees))),
        k([to_brackets(all_of(tree)) for tree in trees]),
        rtol=1e-12,
    )


def test_wide_and_deep_pairs_agree_with_relabelled_ones():
    wide = [
        f"(S {' '.join(f'({x}{i % 7})' for i in range(n))})"
        for x, n in (("a", 200), ("b", 150), ("a", 3))
    ]
    deep = ["(a " * n + "(b)" + ")" * n for n in (300, 200)]
    deep += [text.replace("a", "c") for text in deep]
    pairs = {(f"a{i}", f"b{i}"): 1.0 for i in range(7)}
    similar = tk.kernels.TableSimilarity({**pairs, ("a", "c"): 1.0})
    X = wide + deep
    same = [x.replace("b0", "a0") for x in X]
    for i in range(7):
        same = [x.replace(f"b{i}", f"a{i}") for x in same]
    same = [x.replace("(c ", "(a ") for x in same]
    for longest in (None, 3):
        k = tk.PartialTreeKernel(0.4, 0.4, max_children=longest)
        np.testing.assert_allclose(
            k.replace(similarity=similar)(X), k(same), rtol=1e-11
        )


# --- All ways to ask ------------------------------------------------------------------


def some():
    rng = random.Random(12)
    names = [f"w{i}" for i in range(20)]
    vectors = {name: [rng.gauss(0, 1) for _ in range(5)] for name in names[:15]}
    similar = tk.kernels.VectorSimilarity(vectors)
    X = [to_brackets(random_tree(rng, rng.randint(2, 15), names)) for _ in range(40)]
    return similar, X


@pytest.mark.parametrize("normalize", [False, True])
def test_rows_diagonals_neighbours_and_kept_indices_agree_with_pairs(normalize):
    similar, X = some()
    k = tk.PartialTreeKernel(similarity=similar, normalize=normalize)
    K = k(X)
    expected = np.array([[k.pair(a, b) for b in X] for a in X])
    np.testing.assert_allclose(K, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(k(X[:10], X), K[:10], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.rows(X)[3], K[3], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(K), rtol=1e-9)
    np.testing.assert_allclose(
        k.pairs(X, [0, 5], [7, 5]), [K[0, 7], K[5, 5]], rtol=1e-9
    )
    np.testing.assert_array_equal(k.gram(X, n_jobs=1), k.gram(X, n_jobs=2))
    found = k.top_k(X, k=3)
    for i in range(len(X)):
        others = np.delete(np.arange(len(X)), i)
        best = np.sort(K[i, others])[::-1][:3]
        np.testing.assert_allclose(found.values[i], best, rtol=1e-9, atol=1e-12)
    least = float(np.quantile(K, 0.9))
    pairs = k.join(X, min_similarity=least)
    assert len(pairs.rows) == np.triu(least <= K, 1).sum()
    index = k.index(X[:30])
    np.testing.assert_allclose(index.gram(X[30:]), K[30:, :30], rtol=1e-9, atol=1e-12)
    index.add(X[30:])
    np.testing.assert_allclose(index.gram(X[:3]), K[:3], rtol=1e-9, atol=1e-12)
    single = k.gram(X, dtype=np.float32)
    np.testing.assert_allclose(single, K, rtol=1e-5, atol=1e-6)


def kinds_of_blocks():
    """Yield similarities that are dense, sparse, and both; and of leaves and inner nodes."""
    rng = random.Random(13)
    names = [f"w{i}" for i in range(20)]
    vectors = {name: [rng.gauss(0, 1) for _ in range(5)] for name in names}
    chain = {(f"w{i}", f"w{i + 1}"): rng.uniform(-1, 1) for i in range(12)}
    yield tk.kernels.VectorSimilarity(vectors)
    yield tk.kernels.VectorSimilarity(vectors, classes=lambda name: int(name[1:]) % 2)
    yield tk.kernels.VectorSimilarity(vectors, threshold=0.6)
    yield tk.kernels.TableSimilarity(chain)
    yield tk.kernels.TableSimilarity(
        {**chain, ("w17", "w18"): 0.5, ("w18", "w19"): -0.7}
    )
    yield tk.kernels.TableSimilarity({})


@pytest.mark.parametrize("leaf_factor", [1.0, 0.0, 3.0])
@pytest.mark.parametrize("max_children", [None, 2])
def test_rows_agree_with_pairs_for_all_kinds_of_similarities(leaf_factor, max_children):
    rng = random.Random(14)
    names = [f"w{i}" for i in range(20)]
    trees = [random_tree(rng, rng.randint(1, 40), names) for _ in range(30)]
    X = [to_brackets(tree) for tree in trees]
    few = [to_brackets(random_tree(rng, 25, ["w0", "w1"])) for _ in range(6)]
    wide = [
        f"(w0 {' '.join(f'(w{i % m} (w3))' for i in range(n))})"
        for n, m in ((45, 20), (50, 2), (12, 1))
    ]
    X += few + wide + X[:3]
    for similar in kinds_of_blocks():
        k = tk.PartialTreeKernel(
            leaf_factor=leaf_factor, max_children=max_children, similarity=similar
        )
        expected = np.array([[k.pair(a, b) for b in X] for a in X])
        scale = np.sqrt(np.outer(*[np.abs(np.diag(expected))] * 2)) + 1e-300
        for K in (k(X), k(X, X), k.rows(X)[:]):
            assert np.abs((K - expected) / scale).max() < 1e-9
        np.testing.assert_array_equal(k.gram(X, n_jobs=1), k.gram(X, n_jobs=2))


def test_values_do_not_depend_on_what_else_is_in_the_store():
    similar, X = some()
    for threshold in (None, 0.3):
        k = tk.PartialTreeKernel(similarity=similar.replace(threshold=threshold))
        forest = tk.Forest.from_brackets(["(w19 (w3) (w1))", *X])
        K = k(forest[1:])
        np.testing.assert_array_equal(K, k(X))
        np.testing.assert_allclose(k(forest)[1:, 1:], K, rtol=1e-9, atol=1e-14)
        assert k.pair(X[0], X[1]) == pytest.approx(K[0, 1], rel=1e-9)


def test_values_beyond_floats_are_errors_or_normalised():
    wide = "(S " + "(a) " * 700 + ")"
    other = "(S " + "(b) " * 690 + ")"
    k = tk.PartialTreeKernel(
        1.0, 1.0, similarity=tk.kernels.TableSimilarity({("a", "b"): 0.9})
    )
    with pytest.raises(OverflowError, match="tree 0 and tree 0"):
        k([wide, other])
    K = k.replace(normalize=True)([wide, other])
    assert 0 <= K[0, 1] < 1
    negative = k.replace(similarity=tk.kernels.TableSimilarity({("a", "b"): -0.999}))
    with pytest.raises(OverflowError, match="tree 0 and tree 0"):
        negative([wide], [other, wide, "(c)"][1:])


def test_what_needs_an_index_is_refused():
    similar, X = some()
    k = tk.PartialTreeKernel(similarity=similar)
    svc = tk.TreeSVC(k).fit(X, [0, 1] * 20)
    for use in (
        lambda: tk.DistributedTrees(k),
        svc.top_fragments,
        lambda: svc.contributions(X[0]),
    ):
        with pytest.raises(
            ValueError, match="PartialTreeKernel with a similarity does not"
        ):
            use()
    assert len(svc.predict(X)) == len(X)


def test_scikit_learn_takes_it():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    similar, X = some()
    k = tk.PartialTreeKernel(similarity=similar)
    grid = {"treegram__kernel__similarity": [None, similar, similar.replace(power=2)]}
    model = make_pipeline(tk.TreeGram(k), SVC(kernel="precomputed"))
    search = GridSearchCV(model, grid, cv=2).fit(X, [0, 1] * 20)
    assert len(search.cv_results_["mean_test_score"]) == 3


# --- Objects --------------------------------------------------------------------------

SIMILAR = [
    tk.kernels.TableSimilarity({("a", "b"): 0.5}),
    tk.kernels.TableSimilarity((["a", "b"], np.array([[1, 0.5], [0.5, 1]]))),
    tk.kernels.TableSimilarity((["a", "b"], csr_matrix([[1, 0.5], [0.5, 1]]))),
    tk.kernels.VectorSimilarity(
        {"a": [1.0, 0.0], "b": [0.5, 0.5]}, power=2, threshold=0.1
    ),
    tk.kernels.VectorSimilarity((["a", "b"], np.eye(2)), classes={"a": "x"}, clip=True),
    tk.kernels.ComposedSimilarity(
        {"a::n": [1.0]}, compose="product", same_relation=True
    ),
]


@pytest.mark.parametrize("similar", SIMILAR, ids=repr)
def test_similarities_are_plain_objects(similar):
    k = tk.PartialTreeKernel(0.3, similarity=similar, normalize=True)
    again = pickle.loads(pickle.dumps(k))
    assert again == k
    assert k != k.replace(similarity=None)
    assert k.get_params()["similarity"] is similar
    read = tk.kernels.kernel_from_json(k.to_json())
    X = ["(S (a) (b))", "(S (b) (b))"]
    np.testing.assert_array_equal(read(X), k(X))
    assert read.to_json() == k.to_json()
    assert json.loads(k.to_json())["similarity"]["kernel"] == type(similar).__name__
    assert tk.kernels.kernel_from_json(similar.to_json()).to_json() == similar.to_json()
    assert similar.replace() == similar
    with pytest.raises(AttributeError, match="attributes cannot be set"):
        similar.power = 3


def test_similarities_with_other_data_are_others():
    a, b = SIMILAR[3], SIMILAR[3].replace(vectors={"a": [1.0, 0.0], "b": [0.5, 0.6]})
    assert a != b
    assert SIMILAR[0] != SIMILAR[1]
    assert repr(a) == "VectorSimilarity(<2 vectors>, power=2, threshold=0.1)"
    k = tk.PartialTreeKernel(similarity=SIMILAR[0])
    assert repr(k) == "PartialTreeKernel(0.4, similarity=TableSimilarity(<1 pair>))"


def test_functions_are_not_written_as_json():
    k = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(lambda x, y: 0.0))
    with pytest.raises(ValueError, match=r"pairs is a function, .* cannot be written"):
        k.to_json()


def test_a_function_is_asked_once_for_each_pair_of_labels_in_order():
    asked = []

    def similar(x, y):
        asked.append((x, y))
        return 0.5

    k = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(similar))
    k(["(b (a) (c))", "(c (a) (a))"])
    assert sorted(asked) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_errors_of_a_function_are_raised():
    def similar(x, y):
        raise LookupError(x, y)

    k = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(similar))
    for use in (
        lambda: k(["(a (b))"]),
        lambda: k.pair("(a)", "(b)"),
        lambda: k.top_k(["(a)", "(b)"]),
        lambda: k.index(["(a)"]).gram(["(b)"]),
    ):
        with pytest.raises(LookupError):
            use()
    assert tk.PartialTreeKernel().pair("(a)", "(a)") > 0


BAD = [
    (
        tk.kernels.TableSimilarity({("a", "b"): 1.5}),
        "'a' and 'b' must be from -1 to 1, got 1.5",
    ),
    (
        tk.kernels.TableSimilarity({("a", "b"): math.nan}),
        "'a' and 'b' must be .* got nan",
    ),
    (tk.kernels.TableSimilarity({("a", "b"): "x"}), "'a' and 'b' must be .* got 'x'"),
    (
        tk.kernels.TableSimilarity({("a", "a"): 0.5}),
        "'a' with itself must be 1, got 0.5",
    ),
    (tk.kernels.TableSimilarity({("a", "b"): 0.5, ("b", "a"): 0.4}), "but .* 0.4"),
    (tk.kernels.TableSimilarity({"ab": 0.5}), r"expected keys \(x, y\)"),
    (tk.kernels.TableSimilarity((["a"], np.eye(2))), "shape"),
    (tk.kernels.TableSimilarity((["a", "a"], np.eye(2))), "duplicate label 'a'"),
    (
        tk.kernels.TableSimilarity((["a", "b"], np.array([[1, 0.5], [0, 1]]))),
        "'a', 'b'",
    ),
    (
        tk.kernels.TableSimilarity((["a", "b"], csr_matrix([[1, 0], [0.5, 1]]))),
        "'b', 'a'",
    ),
    (
        tk.kernels.TableSimilarity((["a", "b"], np.zeros((2, 2)))),
        "'a' with itself must be 1",
    ),
    (
        tk.kernels.TableSimilarity(lambda x, y: 2),
        "'S' and 'a' must be from -1 to 1, got 2",
    ),
    (
        tk.kernels.VectorSimilarity({"a": [1.0], "b": [math.nan]}),
        "number 0 of 'b' is nan",
    ),
    (
        tk.kernels.VectorSimilarity({"a": [math.inf], "b": [1.0]}),
        "number 0 of 'a' is inf",
    ),
    (tk.kernels.VectorSimilarity({"a": [1.0], "b": [1, 2]}), "1 numbers for 'b'"),
    (tk.kernels.VectorSimilarity({"a": [1.0], "b": "x"}), "numbers for 'b'"),
    (tk.kernels.VectorSimilarity({"a": [1.0]}, power=0), "power must be"),
    (tk.kernels.VectorSimilarity({"a": [1.0]}, power=1.5), "power must be"),
    (
        tk.kernels.VectorSimilarity({"a": [1.0]}, threshold=math.nan),
        "threshold must be",
    ),
    (tk.kernels.VectorSimilarity({"a": [1.0]}, classes="pos"), "classes must be"),
    (tk.kernels.VectorSimilarity({"a": [1.0]}, clip=1), "clip must be True or False"),
    (tk.kernels.VectorSimilarity((["a"], np.eye(2))), "a matrix of 1 rows"),
    (tk.kernels.ComposedSimilarity({"a": [1.0]}, compose="max"), "compose must be"),
    (tk.kernels.ComposedSimilarity({"a": [1.0]}, same_pos=None), "same_pos must be"),
]


@pytest.mark.parametrize(("similar", "message"), BAD, ids=[m for _, m in BAD])
def test_what_is_no_similarity_is_refused_where_it_is_used(similar, message):
    k = tk.PartialTreeKernel(similarity=similar)
    pickle.loads(pickle.dumps(k)) if "function" not in repr(k) else None
    with pytest.raises(ValueError, match=message):
        k(["(S (a) (b))"])


@pytest.mark.parametrize(
    "similar",
    ["cosine", 3, tk.kernels.TableSimilarity([1]), tk.kernels.VectorSimilarity(3)],
)
def test_what_is_of_no_known_kind_is_refused(similar):
    with pytest.raises(TypeError, match="must be"):
        tk.PartialTreeKernel(similarity=similar)(["(a)"])


def test_zeros_and_missing_vectors_are_equality():
    similar = tk.kernels.VectorSimilarity({"a": [0.0, 0.0], "b": [1.0, 0.0]})
    np.testing.assert_array_equal(similar.matrix(["a", "b", "c"]), np.eye(3))


# --- Indefinite -----------------------------------------------------------------------


def test_a_self_kernel_below_zero_names_the_tree():
    pairs = {("a", "b"): -1, ("b", "c"): -1, ("a", "c"): -1}
    k = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(pairs))
    bad, X = "(a (b) (c))", ["(a)", "(a (b) (c))", "(b)"]
    assert k.pair(bad, bad) == pytest.approx(-0.190362, abs=6e-7)
    n = k.replace(normalize=True)
    for use, tree in (
        (lambda: n(X), "tree 1 of X"),
        (lambda: n(["(a)"], X), "tree 1 of Y"),
        (lambda: n(X, ["(a)"]), "tree 1 of X"),
        (lambda: n.diag(X), "tree 1 of X"),
        (lambda: n.rows(X), "tree 1 of X"),
        (lambda: n.pair(bad, "(a)"), "tree 0 of a"),
        (lambda: n.pair("(a)", bad), "tree 0 of b"),
        (lambda: n.pair(bad, bad), "tree 0 of [ab]"),
        (lambda: n.top_k(X), "tree 1 of X"),
        (lambda: n.join(["(a)"], X), "tree 1 of Y"),
        (lambda: n.pairs(X, [0], [1]), "tree 1 of X"),
        (lambda: n.index(X).gram(["(a)"]), "tree 1 of Y"),
    ):
        with pytest.raises(ValueError, match=f"{tree} with itself.*indefinite"):
            use()


def test_leaves_without_weight_are_zeros_as_in_pt():
    k = tk.PartialTreeKernel(
        leaf_factor=0, normalize=True, similarity=tk.kernels.TableSimilarity({})
    )
    with pytest.warns(RuntimeWarning, match="with themselves is 0"):
        assert k(["(a)", "(a (b))"]).tolist() == [[0, 0], [0, 1]]


def test_smallest_eigenvalues_are_those_of_the_matrix():
    rng = np.random.default_rng(5)
    labels = [f"w{i}" for i in range(50)]
    vectors = (labels, rng.normal(size=(50, 4)))
    X = [f"({label})" for label in labels]
    for how in ({}, {"clip": True}, {"threshold": 0.8}, {"power": 2, "threshold": 0.4}):
        similar = tk.kernels.VectorSimilarity(
            vectors, classes=lambda x: int(x[1:]) % 3, **how
        )
        expected = np.linalg.eigvalsh(similar.matrix(labels))[0]
        assert similar.smallest_eigenvalue(X) == pytest.approx(expected, abs=1e-9)
    assert tk.kernels.TableSimilarity({}).smallest_eigenvalue(X) == 1.0


def test_large_blocks_take_lanczos(monkeypatch):
    from treekernel_rs import similarity

    rng = np.random.default_rng(6)
    labels = [f"w{i}" for i in range(120)]
    similar = tk.kernels.VectorSimilarity(
        (labels, rng.normal(size=(120, 4))), threshold=0.5
    )
    X = [f"({label})" for label in labels]
    expected = similar.smallest_eigenvalue(X)
    monkeypatch.setattr(similarity, "_DENSE", 10)
    assert similar.smallest_eigenvalue(X) == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("error")
def test_indefinite_similarities_warn_once_and_others_do_not():
    X = ["(w0)", "(w45)", "(w90)", "(w135)"]
    vectors = angles(*EIGHT)
    for similar in (
        tk.kernels.VectorSimilarity(vectors),
        tk.kernels.VectorSimilarity(vectors, power=2),
        tk.kernels.TableSimilarity({("w0", "w45"): 0.5}),
        tk.kernels.TableSimilarity(lambda x, y: 0.1),
    ):
        tk.PartialTreeKernel(similarity=similar)(X)
    k = tk.PartialTreeKernel(similarity=tk.kernels.VectorSimilarity(vectors, clip=True))
    with pytest.warns(RuntimeWarning, match=r"not positive semidefinite.*power=2"):
        k(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k(X)


def test_a_warning_made_an_error_ends_the_call():
    similar = tk.kernels.VectorSimilarity(angles(*EIGHT), clip=True)
    k, X = tk.PartialTreeKernel(similarity=similar), [f"(w{d})" for d in EIGHT]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="semidefinite"):
            k(X)
