"""Forests and trees as values: building, indexing, comparing, counting, copying."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import treekernel_rs as tk


def lists(tree):
    """Turn the oracle's tree into (label, [children]) and childless (label,)."""
    return oracle.rebuild(
        tree,
        lambda label, children: (label, children) if children else (label,),
        lambda node: node[0],
        lambda node: node[1],
    )


def printed(forest):
    return [oracle.show(tree) for tree in forest]


def build(forest) -> tk.Forest:
    return tk.Forest.from_brackets(printed(forest))


SIX = ["(S (A a) (B b))", "(a)", "(S (A a))", "(S (B b) (A a))", "(a)", "(A a)"]


@pytest.fixture
def six() -> tk.Forest:
    return tk.Forest.from_brackets(SIX)


# --- from_trees ---------------------------------------------------------------------


class Attributes:
    def __init__(self, label, children):
        self.label = label
        self.children = children


class Methods:
    def __init__(self, label, children):
        self._label, self._children = label, children

    def label(self):
        return self._label

    def children(self):
        return self._children


class LabelMethod:
    def __init__(self, label, children):
        self._label, self.children = label, children

    def label(self):
        return self._label


def convert(tree, make):
    return oracle.rebuild(tree, make, lambda node: node[0], lambda node: node[1])


@given(oracle.forests)
def test_trees_to_brackets_and_back_are_the_same(forest):
    from_trees = tk.Forest.from_trees(forest)
    assert from_trees.to_brackets() == printed(forest)
    assert tk.Forest.from_brackets(from_trees.to_brackets()) == from_trees
    assert [oracle.from_library(tree) for tree in from_trees] == forest


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda label, kids: (label, kids), id="tuple and list"),
        pytest.param(lambda label, kids: (label, tuple(kids)), id="tuples"),
        pytest.param(lambda label, kids: (label, kids) if kids else label, id="str"),
        pytest.param(lambda label, kids: (label, kids) if kids else (label,), id="1"),
        pytest.param(Attributes, id="attributes"),
        pytest.param(Methods, id="methods"),
        pytest.param(LabelMethod, id="label method, children attribute"),
        pytest.param(
            lambda label, kids: Attributes(label, tuple(kids)), id="tuple of children"
        ),
        pytest.param(
            lambda label, kids: Attributes(label, kids) if kids else label,
            id="attributes, str leaf",
        ),
    ],
)
@given(forest=oracle.forests)
def test_every_kind_of_tree_object_is_read(make, forest):
    objects = [convert(tree, make) for tree in forest]
    assert tk.Forest.from_trees(objects) == build(forest)
    assert tk.Forest.from_trees(iter(objects)) == build(forest)


@given(forest=oracle.forests)
def test_nltk_trees_are_read(forest):
    nltk = pytest.importorskip("nltk")
    # An empty bracket around a tree is dropped, as parsing does: test_one_convention.
    assume(all(label or len(children) != 1 for label, children in forest))
    objects = [convert(tree, nltk.Tree) for tree in forest]
    assert tk.Forest.from_trees(objects) == build(forest)
    objects = [
        convert(tree, lambda label, kids: nltk.Tree(label, kids) if kids else label)
        for tree in forest
    ]
    assert tk.Forest.from_trees(objects) == build(forest)


@given(forest=oracle.forests)
def test_library_trees_are_read(forest):
    built = build(forest)
    assert tk.Forest.from_trees(built) == built
    assert tk.Forest.from_trees(list(built)) == built
    nested = [("root", list(built)), ("root", [("x", [*built, "y"])])]
    expected = [("root", tuple(forest)), ("root", (("x", (*forest, ("y", ()))),))]
    assert tk.Forest.from_trees(nested).to_brackets() == printed(expected)


def test_kinds_of_objects_mix():
    objects = [
        ("S", ["a", ("b",), ("c", []), Attributes("d", ["e"]), Methods("f", ())]),
        "lone",
        tk.Forest.from_brackets("(t u)")[0],
    ]
    expected = ["(S a b c (d e) f)", "(lone)", "(t u)"]
    assert tk.Forest.from_trees(objects).to_brackets() == expected


def test_an_object_used_twice_is_no_cycle():
    shared = Attributes("x", [("y", [])])
    tree = ("S", [shared, shared, ("T", [shared])])
    assert tk.Forest.from_trees([tree, shared]).to_brackets() == [
        "(S (x y) (x y) (T (x y)))",
        "(x y)",
    ]


def test_no_trees_give_an_empty_forest():
    assert tk.Forest.from_trees([]) == tk.Forest.from_brackets([])


# --- from_arrays and to_arrays ------------------------------------------------------


def assert_arrays(arrays, forest):
    """Check the arrays node by node against the oracle's."""
    expected = oracle.to_arrays(forest)
    assert set(arrays) == {"labels", "parents", "offsets", "names", "name_offsets"}
    assert all(type(array) is np.ndarray for array in arrays.values())
    assert arrays["parents"].tolist() == expected["parents"]
    assert arrays["offsets"].tolist() == [*expected["offsets"], len(expected["labels"])]
    assert (arrays["names"].dtype, arrays["name_offsets"].dtype) == (np.uint8, np.int64)
    names, cuts = arrays["names"].tobytes(), arrays["name_offsets"].tolist()
    names = [names[i:j].decode() for i, j in itertools.pairwise(cuts)]
    assert len(set(names)) == len(names)
    assert [names[label] for label in arrays["labels"]] == expected["labels"]


@given(oracle.forests)
def test_arrays_say_what_the_oracle_says(forest):
    built = build(forest)
    arrays = built.to_arrays()
    assert_arrays(arrays, forest)
    assert tk.Forest.from_arrays(**arrays) == built


@given(oracle.forests)
def test_arrays_with_string_labels(forest):
    arrays = oracle.to_arrays(forest)
    built = build(forest)
    assert tk.Forest.from_arrays(**arrays) == built
    labels = np.array(arrays["labels"], dtype=object)
    parents = np.array(arrays["parents"], dtype=np.int64)
    offsets = np.array(arrays["offsets"], dtype=np.int64)
    assert tk.Forest.from_arrays(labels, parents, offsets) == built


@given(oracle.forests, st.randoms(use_true_random=False))
def test_arrays_with_names_in_any_order(forest, random):
    arrays = oracle.to_arrays(forest)
    names = sorted({*arrays["labels"], "a name that no node uses"})
    random.shuffle(names)
    labels = [names.index(label) for label in arrays["labels"]]
    rest = (arrays["parents"], arrays["offsets"])
    assert tk.Forest.from_arrays(labels, *rest, names=names) == build(forest)
    assert tk.Forest.from_arrays(labels, *rest, names) == build(forest)


@given(oracle.forests)
def test_npz_file_round_trips(forest):
    file = io.BytesIO()
    np.savez(file, **build(forest).to_arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        assert tk.Forest.from_arrays(**arrays) == build(forest)


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "u1", "u4", "u8", ">i4"])
def test_arrays_of_any_integer_type(dtype):
    labels = np.array([0, 1, 2, 0], dtype)
    parents = np.array([-1, 0, 0, -1], dtype.replace("u", "i"))
    offsets = np.array([0, 3], dtype)
    forest = tk.Forest.from_arrays(labels, parents, offsets, ["S", "a", "b"])
    assert forest.to_brackets() == ["(S a b)", "(S)"]


def test_arrays_with_strides():
    table = np.array([[0, -1], [1, 0], [2, 1], [0, 0]])
    forest = tk.Forest.from_arrays(table[:, 0], table[:, 1], [0], ["S", "a", "b"])
    assert forest.to_brackets() == ["(S (a b) S)"]
    labels, parents = table[::-1].copy()[::-1].T  # negative strides
    again = tk.Forest.from_arrays(labels, parents, [0], ["S", "a", "b"])
    assert again == forest


def test_integer_labels_without_names_are_their_decimal_text():
    forest = tk.Forest.from_arrays(np.array([7, 10, 7]), np.array([-1, 0, -1]), [0, 2])
    assert forest.to_brackets() == ["(7 10)", "(7)"]


def test_equal_names_are_one_label():
    forest = tk.Forest.from_arrays([0, 1], [-1, -1], [0, 1], ["a", "a"])
    assert forest[0] == forest[1]
    assert forest.n_distinct == 1
    assert forest == tk.Forest.from_brackets("(a)(a)")


def test_arrays_of_no_trees():
    empty = tk.Forest.from_brackets([])
    assert tk.Forest.from_arrays([], [], []) == empty
    assert tk.Forest.from_arrays(**empty.to_arrays()) == empty
    assert tk.Forest.from_arrays(*(np.array([], dtype=np.int64),) * 3, ["a"]) == empty


# --- Reading a tree -----------------------------------------------------------------


@given(oracle.trees)
def test_tree_tells_what_the_oracle_counts(tree):
    (read,) = build([tree])
    assert read.label == tree[0]
    assert [str(child) for child in read.children] == [
        oracle.show(child) for child in tree[1]
    ]
    assert type(read.children) is list
    assert read.n_nodes == oracle.n_nodes(tree)
    assert read.depth == oracle.depth(tree)
    assert str(read) == oracle.show(tree)


@given(oracle.trees)
def test_tree_pickles_and_copies(tree):
    (read,) = build([tree])
    for node in (read, *read.children):
        for twin in (
            pickle.loads(pickle.dumps(node)),
            copy.copy(node),
            copy.deepcopy(node),
        ):
            assert type(twin) is tk.Tree
            assert twin == node
            assert hash(twin) == hash(node)
            assert str(twin) == str(node)


@given(oracle.trees, oracle.trees)
def test_trees_are_equal_when_the_oracle_says_so(a, b):
    (one,), (two,) = build([a]), build([b])
    twin = tk.Forest.from_trees([("z", [lists(b)]), lists(a)])[1]
    assert (one == two) == (a == b)
    assert (one != two) == (a != b)
    assert one == twin
    assert hash(one) == hash(twin)
    if a == b:
        assert hash(one) == hash(two)


@given(oracle.forests)
def test_trees_are_set_members_by_value(forest):
    in_order, turned = build(forest), build(forest[::-1])
    assert len({*in_order, *turned}) == len(set(printed(forest)))
    assert all(tree in set(turned) for tree in in_order)


@given(oracle.trees)
def test_children_are_equal_to_trees_that_stand_alone(tree):
    (read,) = build([tree])
    for child, alone in zip(read.children, build(tree[1]), strict=True):
        assert child == alone
        assert hash(child) == hash(alone)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(a b c)", "(a c b)"),
        ("(a (b c))", "(a b c)"),
        ("(a b)", "(a b b)"),
        ("(a)", "(b)"),
        (r"(a\ b)", "(a b)"),
        (r"(\e)", r"(\\e)"),
        ("(é)", "(e\u0301)"),
        ("(a (b) (c d))", "(a (b c) (d))"),
    ],
)
def test_different_trees_are_not_equal(a, b):
    one, two = tk.Forest.from_brackets([a, b])
    assert one != two
    assert tk.Forest.from_brackets(a) != tk.Forest.from_brackets(b)


def test_a_tree_equals_trees_only(six):
    assert six[0] != "(S (A a) (B b))"
    assert six[0] is not None
    assert six[0] != six


def test_a_tree_outlives_its_forest(six):
    tree = six[0].children[1]
    del six
    assert str(tree) == "(B b)"


@pytest.mark.parametrize("name", ["label", "children", "n_nodes", "depth", "new"])
def test_a_tree_is_frozen(six, name):
    with pytest.raises((AttributeError, TypeError)):
        setattr(six[0], name, 1)


# --- Counts -------------------------------------------------------------------------


@given(oracle.forests)
def test_counts_meet_the_oracle(forest):
    built = build(forest)
    assert len(built) == len(forest)
    assert built.n_nodes.dtype == np.int64
    assert built.n_nodes.tolist() == [oracle.n_nodes(tree) for tree in forest]
    assert built.n_distinct == oracle.n_distinct(forest)
    assert sorted(built.labels) == sorted(oracle.labels(forest))


@given(oracle.forests)
def test_subtree_ids_are_equal_exactly_for_equal_subtrees(forest):
    indptr, ids = build(forest).subtree_ids()
    assert (indptr.dtype, ids.dtype) == (np.int64, np.uint32)
    texts = [text for tree in forest for text in oracle.subtrees(tree)]
    sizes = [oracle.n_nodes(tree) for tree in forest]
    assert indptr.tolist() == np.cumsum([0, *sizes]).tolist()
    pairs = set(zip(texts, ids.tolist(), strict=True))
    assert len(pairs) == len(set(texts)) == len(set(ids.tolist()))


@given(st.lists(oracle.trees, max_size=4), st.data())
def test_unique_trees_are_those_that_numpy_finds(trees, data):
    forest = data.draw(st.lists(st.sampled_from(trees), max_size=9)) if trees else []
    built = build(forest)
    unique = built.unique()
    texts = np.array(built.to_brackets(), dtype="U")
    _, *expected = np.unique(texts, True, True, True)
    # numpy sorts them; here they come in the order of their first occurrence.
    order = np.argsort(expected[0])
    place = np.argsort(order)
    assert unique.indices.tolist() == expected[0][order].tolist()
    assert unique.inverse.tolist() == place[expected[1].ravel()].tolist()
    assert unique.counts.tolist() == expected[2][order].tolist()
    assert unique.trees == built[unique.indices]
    assert unique.trees[unique.inverse] == built
    assert {array.dtype for array in unique[1:]} == {np.dtype(np.int64)}


def test_n_distinct_of_a_slice_counts_the_slice(six):
    assert six[1:2].n_distinct == 1
    assert six[:0].n_distinct == 0
    assert six[np.array([1, 4])].n_distinct == 1


def test_nbytes_grows_with_what_is_new_and_not_with_repeats():
    few = tk.Forest.from_brackets("(S (A a) (B b))")
    many = tk.Forest.from_brackets("(S (A a) (B b))" * 1000)
    long = tk.Forest.from_brackets("(S (A a) (B " + "b" * 100_000 + "))")
    assert type(few.nbytes) is int
    assert 0 < few.nbytes < many.nbytes + 1 < few.nbytes + 32 * 1000
    assert long.nbytes >= 100_000


def test_returned_arrays_are_no_window_into_the_forest(six):
    twin = tk.Forest.from_brackets(SIX)
    for array in (six.n_nodes, *six.subtree_ids(), *six.to_arrays().values()):
        if array.flags.writeable:
            array[...] = 0
    assert six == twin
    assert six.to_brackets() == SIX
    assert six.n_nodes.tolist() == twin.n_nodes.tolist()


# --- Indexing -----------------------------------------------------------------------

bounds = st.none() | st.integers(-9, 9)
steps = st.sampled_from([None, 1, 2, 3, -1, -2])


@given(st.builds(slice, bounds, bounds, steps))
def test_slice_selects_as_a_list_does(cut):
    forest = tk.Forest.from_brackets(SIX)
    assert forest[cut].to_brackets() == SIX[cut]
    assert forest[cut] == tk.Forest.from_brackets(SIX[cut])


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_mask_selects_as_numpy_does(mask):
    forest = tk.Forest.from_brackets(SIX)
    expected = np.array(SIX, dtype=object)[np.array(mask)].tolist()
    assert forest[np.array(mask)].to_brackets() == expected


@given(
    st.lists(st.integers(-6, 5), max_size=9),
    st.sampled_from([np.int64, np.int32, np.int8, np.intp]),
)
def test_index_array_selects_as_numpy_does(index, dtype):
    forest = tk.Forest.from_brackets(SIX)
    index = np.array(index, dtype=dtype)
    expected = np.array(SIX, dtype=object)[index].tolist()
    assert forest[index].to_brackets() == expected


def test_unsigned_and_strided_index_arrays(six):
    assert six[np.array([5, 0], dtype=np.uint8)].to_brackets() == [SIX[5], SIX[0]]
    assert six[np.arange(6)[::-2]].to_brackets() == SIX[::-2]
    assert six[np.flatnonzero(six.n_nodes == 1)].to_brackets() == ["(a)", "(a)"]


@pytest.mark.parametrize("index", [0, 5, -1, -6, np.int64(3), np.uint8(2)])
def test_integer_selects_a_tree(six, index):
    assert type(six[index]) is tk.Tree
    assert str(six[index]) == SIX[index]


@pytest.mark.parametrize("index", [6, -7, 10**9, -(10**9), 2**63, -(2**70)])
def test_integer_out_of_range_is_an_index_error(six, index):
    with pytest.raises(IndexError):
        six[index]


@pytest.mark.parametrize(
    "index",
    [
        np.array([0, 6]),
        np.array([-7]),
        np.array([2**62]),
        np.array([2**63 + 1], dtype=np.uint64),
        np.array([True] * 5),
        np.array([True] * 7),
        np.array([], dtype=bool),
    ],
    ids=repr,
)
def test_index_array_out_of_range_is_an_index_error(six, index):
    with pytest.raises((IndexError, ValueError)):
        six[index]


@pytest.mark.parametrize(
    "index",
    [
        "a",
        1.0,
        None,
        np.array([0.0, 1.0]),
        np.array(["a"]),
        np.array([[0, 1]]),
        (0, 1),  # of a matrix, this is one entry
        (0,),
    ],
    ids=repr,
)
def test_no_index_at_all_is_an_error(six, index):
    with pytest.raises((TypeError, IndexError, ValueError)):
        six[index]


@given(oracle.forests, st.builds(slice, bounds, bounds, steps))
def test_a_slice_is_a_forest_like_any_other(forest, cut):
    part = build(forest)[cut]
    rebuilt = build(forest[cut])
    assert part == rebuilt
    assert rebuilt == part
    assert part.n_nodes.tolist() == rebuilt.n_nodes.tolist()
    assert tk.Forest.from_arrays(**part.to_arrays()) == rebuilt
    assert_arrays(part.to_arrays(), forest[cut])
    assert pickle.loads(pickle.dumps(part)) == rebuilt
    assert list(part) == list(rebuilt)
    assert part + part == rebuilt + rebuilt


def test_iteration_gives_the_trees_in_order(six):
    assert [str(tree) for tree in six] == SIX
    assert [str(tree) for tree in reversed(six)] == SIX[::-1]
    assert six[1] in six


# --- Concatenation, equality, copies ------------------------------------------------


@given(oracle.forests, oracle.forests)
def test_sum_holds_the_trees_of_both(a, b):
    one, two = build(a), build(b)
    assert (one + two) == build(a + b)
    assert (one + two).to_brackets() == printed(a + b)
    assert (one + two).n_distinct == oracle.n_distinct(a + b)
    assert sorted((one + two).labels) == sorted(oracle.labels(a + b))
    assert one == build(a)  # both stay what they were
    assert two == build(b)


@given(oracle.forests, oracle.forests)
def test_forests_are_equal_when_their_trees_are(a, b):
    assert (build(a) == build(b)) == (a == b)
    assert (build(a) != build(b)) == (a != b)


@given(oracle.forests)
def test_equality_does_not_depend_on_the_order_of_labels(forest):
    names = sorted(oracle.labels(forest), reverse=True)
    before = tk.Forest.from_trees([("other", names), *map(lists, forest)])
    assert before[1:] == build(forest)
    assert build(forest) == before[1:]
    assert [hash(tree) for tree in before[1:]] == [hash(tree) for tree in build(forest)]
    assert (tk.Forest.from_trees([("other", names)]) + build(forest)) == before


def test_a_forest_equals_forests_only(six):
    assert six != SIX
    assert six != "x"
    assert six is not None


@pytest.mark.parametrize("other", ["(a)", 1, None], ids=repr)
def test_only_forests_can_be_added(six, other):
    with pytest.raises(TypeError):
        six + other


@given(oracle.forests)
def test_forest_pickles_and_copies(forest):
    built = build(forest)
    twins = [copy.copy(built), copy.deepcopy(built)]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        twins.append(pickle.loads(pickle.dumps(built, protocol)))
    for twin in twins:
        assert type(twin) is tk.Forest
        assert twin == built
        assert twin.to_brackets() == built.to_brackets()
        assert twin.n_distinct == built.n_distinct
        assert [hash(tree) for tree in twin] == [hash(tree) for tree in built]


def test_a_slice_of_a_large_forest_pickles_small():
    forest = tk.Forest.from_brackets([f"(S{i} (a{i} b{i}))" for i in range(2000)])
    assert len(pickle.dumps(forest[:2])) < len(pickle.dumps(forest)) / 20
