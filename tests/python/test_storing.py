"""Files of whole objects: everything survives with equal bits, and no damage passes."""

import inspect
import json
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import treekernel_rs as tk
from treekernel_rs import storing

TREES = [
    f"(Q (W {w}) (V {v}) (N n{i % 5}))"
    for i, (w, v) in enumerate([("who", "sang"), ("who", "wrote"), ("where", "is")] * 4)
]
CLASSES = np.array(["p", "p", "l"] * 4)
VALUES = np.linspace(-1.0, 1.0, len(TREES))
SST = tk.SubsetTreeKernel(0.4, normalize=True)


def estimators() -> dict:
    """Return all estimators, fitted."""
    base = pytest.importorskip("sklearn.base")
    fitted = {}
    for name in dir(tk):
        kind = getattr(tk, name)
        if inspect.isclass(kind) and issubclass(kind, base.BaseEstimator):
            estimator = kind(SST)
            y = CLASSES if base.is_classifier(estimator) else VALUES
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted[name] = estimator.fit(TREES, y)
    return fitted


def answers(estimator) -> list:
    """Return what an estimator says of the trees, by all that it can be asked."""
    asked = ["predict", "decision_function", "predict_proba", "transform"]
    found = [getattr(estimator, how)(TREES) for how in asked if hasattr(estimator, how)]
    return [x.toarray() if hasattr(x, "toarray") else np.asarray(x) for x in found]


def others() -> dict:
    """Return objects that are no estimators."""
    forest = tk.Forest(TREES)
    table = tk.kernels.TableSimilarity({("who", "where"): 0.5})
    idf = tk.SubsetTreeKernel(0.4, weights=tk.kernels.Idf().fit(forest))
    return {
        "forest": forest,
        "tree": forest[1],
        "pairs": tk.PairForest.anchored(TREES[:2], TREES[2:4]),
        "kernel": SST + 2 * tk.PartialTreeKernel(0.3, 0.2, similarity=table),
        "weights": tk.SubsetTreeKernel(0.4, weights={"W": 0.5, ("Q", ("W", "V")): 2.0}),
        "idf": idf,
        "encoder": tk.DistributedTrees(SST, 64, composition="sign"),
        "model": tk.DagModel.from_dual(SST, forest, VALUES),
        "sum": tk.DagModel.from_dual(SST + tk.SubtreeKernel(0.4), forest, VALUES),
        "perceptron": tk.Perceptron(tk.SubsetTreeKernel(0.4)).partial_fit(
            forest, np.sign(VALUES + 0.01)
        ),
        "index": tk.TreeIndex(SST, forest),
        "views": tk.kernels.Views(a=forest, b=forest),
    }


OTHERS = [
    "forest",
    "tree",
    "pairs",
    "kernel",
    "weights",
    "idf",
    "encoder",
    "model",
    "sum",
    "perceptron",
    "index",
    "views",
]


def test_every_estimator_says_the_same_in_another_process(tmp_path):
    fitted = estimators()
    assert len(fitted) >= 14
    for name, estimator in fitted.items():
        tk.save(estimator, tmp_path / f"{name}.tk")
    code = (
        "import pathlib, pickle, sys, test_storing, treekernel_rs as tk\n"
        "found = {p.stem: test_storing.answers(tk.load(p))\n"
        "         for p in pathlib.Path(sys.argv[1]).glob('*.tk')}\n"
        "sys.stdout.buffer.write(pickle.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    found = pickle.loads(done.stdout)
    assert found.keys() == fitted.keys()
    for name, estimator in fitted.items():
        expected = answers(estimator)
        assert expected, name
        for got, right in zip(found[name], expected, strict=True):
            np.testing.assert_array_equal(got, right, err_msg=name)
        loaded = tk.load(tmp_path / f"{name}.tk")
        assert type(loaded) is type(estimator)
        assert (
            loaded.get_params(deep=False).keys()
            == estimator.get_params(deep=False).keys()
        )


@pytest.mark.parametrize("name", OTHERS)
def test_other_objects_are_what_their_pickles_are(tmp_path, name):
    obj = others()[name]
    path = tmp_path / "a.tk"
    tk.save(obj, path)
    loaded = tk.load(path)
    assert type(loaded) is type(obj)
    again = tmp_path / "b.tk"
    tk.save(loaded, again)
    assert again.read_bytes() == path.read_bytes()
    if isinstance(obj, tk.DagModel | tk.Perceptron):
        scores = loaded.decision_function(TREES)
        np.testing.assert_array_equal(scores, obj.decision_function(TREES))
    elif isinstance(obj, tk.DistributedTrees):
        np.testing.assert_array_equal(loaded.encode(TREES), obj.encode(TREES))
    elif isinstance(obj, tk.TreeIndex):
        np.testing.assert_array_equal(loaded.gram(TREES), obj.gram(TREES))
    elif name in ("kernel", "weights", "idf"):
        assert loaded == obj
        np.testing.assert_array_equal(loaded(TREES), obj(TREES))
    elif not isinstance(obj, tk.kernels.Views):
        assert loaded == obj


def test_what_is_shared_stays_shared(tmp_path):
    path = tmp_path / "a.tk"
    forest = tk.Forest(TREES)
    tk.save(tk.kernels.Views(a=forest, b=forest), path)
    views = tk.load(path)
    assert views.columns["a"] is views.columns["b"]


def test_values_of_every_kind_survive(tmp_path):
    kept = {
        "float": [0.1, float("inf"), float("-inf"), -0.0],
        "tuple": (1, (True, None), "é"),
        "keys": {1: "a", ("a", 2): b"bytes"},
        "scalars": [np.float32(0.1), np.int8(-3), np.str_("x")],
        "arrays": [np.arange(6.0).reshape(2, 3).T, np.array([], "U3"), np.array(1j)],
        "objects": np.array(["a", None, 2], object),
        "types": [np.float32, np.dtype("<i2"), tk.SubsetTreeKernel],
    }
    told = storing._Writer()
    text = json.dumps(told.told(kept, "x"))
    made = storing._Reader(told.arrays).made(json.loads(text))
    assert repr(made) == repr(kept)
    assert made["arrays"][0].flags.f_contiguous


class OwnKernel(tk.SubsetTreeKernel):
    """A class that the package does not have."""


def test_what_cannot_be_stored_is_refused_by_name(tmp_path):
    pytest.importorskip("sklearn")
    path = tmp_path / "a.tk"
    path.write_bytes(b"old")
    refused = {
        "TreeSVC.kernel": tk.TreeSVC(OwnKernel(0.4)),
        "TreeNystroem.random_state": tk.TreeNystroem(
            SST, random_state=np.random.RandomState(0)
        ),
        "TreeNystroem.selection": tk.TreeNystroem(SST, selection=print),
        "function": test_values_of_every_kind_survive,
    }
    for place, obj in refused.items():
        with pytest.raises(TypeError, match=rf"^{place} cannot be stored"):
            tk.save(obj, path)
        assert path.read_bytes() == b"old"


def test_every_array_begins_where_it_can_be_mapped(tmp_path):
    path = tmp_path / "a.tk"
    forest = tk.Forest(TREES)
    forest.save(path)
    data = path.read_bytes()
    length = int.from_bytes(data[16:24], "little")
    head = json.loads(data[64 : 64 + length])
    assert head["kind"] == "Forest"
    assert (64 + length) % 64 == 0
    arrays = forest.__reduce__()[1]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    assert len(head["arrays"]) == len(arrays) > 1
    for told, array in zip(head["arrays"], arrays, strict=True):
        assert told["offset"] % 64 == 0
        place = 64 + length + told["offset"]
        mapped = np.memmap(path, told["dtype"], "r", place, tuple(told["shape"]))
        np.testing.assert_array_equal(mapped, array)


def damaged(good: bytes, rng: random.Random) -> bytes:
    """Return a file with something changed, cut off, doubled or moved."""
    at, n = rng.randrange(len(good)), 1 + rng.randrange(16)
    how = rng.randrange(5)
    if how == 0:
        return good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :]
    if how == 1:
        return good[:at]
    if how == 2:
        return good[:at] + rng.randbytes(n) + good[at:]
    if how == 3:
        return good[:at] + rng.randbytes(n) + good[at + n :]
    return good[:at] + good[at + n :]


@pytest.mark.parametrize("n", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_no_damage_passes(tmp_path, n):
    pytest.importorskip("sklearn")
    path = tmp_path / "a.tk"
    tk.save(tk.TreeSVC(SST).fit(TREES, CLASSES), path)
    good = path.read_bytes()
    rng = random.Random(n)
    for _ in range(n):
        bad = damaged(good, rng)
        if bad == good:
            continue
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"a\.tk: expected"):
            tk.load(path)


def resealed(good: bytes, change) -> bytes:
    """Return a file whose head was changed on purpose, with checksums that fit."""
    length = int.from_bytes(good[16:24], "little")
    head = json.loads(good[64 : 64 + length])
    change(head)
    text = json.dumps(head).encode()
    text = text.ljust(storing._padded(len(text)))
    start = storing._START.pack(good[:16], len(text))
    digest = storing._digest([start, text])
    return storing._PRELUDE.pack(start, digest) + text + good[64 + length :]


def test_a_head_that_was_changed_on_purpose_makes_nothing_else(tmp_path):
    path = tmp_path / "a.tk"
    tk.save(tk.DagModel.from_dual(SST, tk.Forest(TREES), VALUES), path)
    good = path.read_bytes()
    path.write_bytes(resealed(good, lambda head: None))
    assert isinstance(tk.load(path), tk.DagModel)
    changes = [
        lambda head: head["root"].update(call="os.system", parts=["true"]),
        lambda head: head["root"].update(call="eval", parts=["1"]),
        lambda head: head["root"].update(call="report", parts=[]),
        lambda head: head["root"].update(call="Reading", parts=[1, 2, 3, 4, 5]),
        lambda head: head.update(root={"sparse": "Views", "parts": [1]}),
        lambda head: head["root"].update(parts=[]),
        lambda head: head["arrays"].pop(),
        lambda head: head["arrays"][0].update(dtype="O"),
        lambda head: head["arrays"][0].update(shape=[-1]),
        lambda head: head["arrays"][0].update(shape=[2**62]),
        lambda head: head.update(root={"array": 10**6}),
        lambda head: head.update(root={"object": 0}),
        lambda head: head.update(root={"dict": [[["x"], 1]]}),
        lambda head: head.update(root={}),
        lambda head: head.pop("root"),
    ]
    for change in changes:
        path.write_bytes(resealed(good, change))
        with pytest.raises((ValueError, MemoryError)):
            tk.load(path)


@pytest.mark.parametrize("call", ["NpyFile", "kernel", "encoder"])
def test_a_file_that_was_changed_on_purpose_writes_no_other(tmp_path, call):
    pytest.importorskip("dask")
    path, other = tmp_path / "a.tk", tmp_path / "other.npy"
    other.write_text("as it was")
    tk.save(SST, path)
    arguments = {"path": str(other), "shape": {"tuple": [1]}, "dtype": {"dtype": "<f8"}}
    named = [{"class": "NpyFile"}, {"dict": [[n, v] for n, v in arguments.items()]}]
    parts = list(arguments.values()) if call == "NpyFile" else named
    change = {"call": call, "parts": parts}
    path.write_bytes(resealed(path.read_bytes(), lambda head: head.update(root=change)))
    with pytest.raises(ValueError, match="NpyFile"):
        tk.load(path)
    assert other.read_text() == "as it was"


def test_nesting_without_end_is_an_error(tmp_path):
    path = tmp_path / "a.tk"
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TypeError, match="nested too deeply"):
        tk.save(deep, path)
    tk.Forest(TREES).save(path)
    good = path.read_bytes()
    text = b"[" * 100_000 + b"]" * 100_000
    text = text.ljust(storing._padded(len(text)))
    start = storing._START.pack(good[:16], len(text))
    digest = storing._digest([start, text])
    path.write_bytes(storing._PRELUDE.pack(start, digest) + text)
    with pytest.raises(ValueError, match=r"a\.tk"):
        tk.load(path)


def test_a_forest_is_loaded_as_a_forest_only(tmp_path):
    path = tmp_path / "a.tk"
    tk.save(SST, path)
    assert tk.load(path) == SST
    with pytest.raises(ValueError, match="expected a Forest, got a SubsetTreeKernel"):
        tk.Forest.load(path)


def test_a_pickle_of_another_version_warns(monkeypatch):
    for obj in others().values():
        data = pickle.dumps(obj)
        here = tk.__version__.encode()
        if here not in data:
            continue  # arrays or texts alone, whose form has no version
        other = data.replace(here, b"9" * len(here))
        with pytest.warns(
            UserWarning, match="written by treekernel_rs 999.* and is read"
        ):
            pickle.loads(other)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pickle.loads(data)
