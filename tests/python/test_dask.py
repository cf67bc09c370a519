"""Graphs of Dask against one machine: threads here, and clusters of processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treekernel_rs as tk

dask = pytest.importorskip("dask", reason="Dask is not installed: the extra dask")
distributed = pytest.importorskip(
    "distributed", reason="distributed is not installed: the extra dask"
)
pytest.importorskip("sklearn")

import dask.array as da  # noqa: E402
from dask import delayed  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

import treekernel_rs.dask as tkd  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

# Its own warnings, of ports in use and large graphs, are not the library's.
pytestmark = pytest.mark.filterwarnings("default")

KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)


def texts(n: int, seed: int = 0) -> list[str]:
    """Sentences with few words: much is shared, some are equal."""
    rng = np.random.default_rng(seed)

    def phrase(depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return f"(N (n w{rng.integers(12)}))"
        label = "AB"[rng.integers(2)]
        return f"({label} {phrase(depth - 1)} {phrase(depth - 1)})"

    return [f"(S {phrase(3)} (V v{rng.integers(5)}))" for _ in range(n)]


TREES = texts(90)
OTHERS = texts(50, seed=1)
Y = np.where([" (V v0)" in text or " (V v1)" in text for text in TREES], 1.0, -1.0)


@pytest.fixture(scope="module", autouse=True)
def _sync() -> Iterator[None]:
    with dask.config.set(scheduler="sync"):
        yield


# --- Any chunks, in this process ------------------------------------------------------

chunkings = pytest.mark.parametrize(
    "chunks", [90, 45, 23, 100, (1, 89), (0, 30, 0, 60, 0), (17, 2, 31, 1, 39)]
)


def check_matrix(got: Any, kernel: Any, *trees: Any, dtype: type = np.float64) -> None:
    want = kernel.gram(*trees, dtype=dtype)
    assert got.dtype == dtype
    assert got.shape == want.shape
    matrix = got.compute()
    if dtype == np.float32:
        assert matrix.tolist() == want.tolist()
    else:
        np.testing.assert_allclose(matrix, want, rtol=1e-12)


@chunkings
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrices_of_any_chunks_are_those_of_one_machine(chunks, dtype):
    for kernel in (KERNEL, tk.PartialTreeKernel(0.4, normalize=True)):
        pair = (chunks, chunks)
        got = tkd.gram(kernel, TREES, chunks=pair, dtype=dtype)
        check_matrix(got, kernel, TREES, dtype=dtype)
        assert (got == got.T).all().compute()
        got = tkd.gram(kernel, TREES, OTHERS, chunks=(chunks, 20), dtype=dtype)
        check_matrix(got, kernel, TREES, OTHERS, dtype=dtype)


def check_neighbours(got: Any, want: Any, *trees: Any) -> None:
    """Hold neighbours to those of one machine; equal values may stand in another order."""
    assert [half.shape for half in got] == [half.shape for half in want]
    indices, values = dask.compute(*got)
    np.testing.assert_allclose(values, want.values, rtol=1e-12)
    matrix = KERNEL(*trees)
    np.testing.assert_allclose(
        np.take_along_axis(matrix, indices, axis=1), want.values, rtol=1e-12
    )
    assert all(len(set(row)) == len(row) for row in indices.tolist())
    # Of equal trees, which stand in several partitions, the lower index is first.
    assert (indices == want.indices).mean() > 0.9


@chunkings
@pytest.mark.parametrize("k", [1, 7, 100])
def test_neighbours_of_any_chunks_are_those_of_one_machine(chunks, k):
    for other, both in ((None, (chunks, chunks)), (OTHERS, (chunks, 20))):
        trees = (TREES,) if other is None else (TREES, other)
        got = tkd.top_k(KERNEL, TREES, other, k=k, chunks=both)
        check_neighbours(got, KERNEL.top_k(TREES, other, k=k), *trees)
        got = tkd.join(KERNEL, TREES, other, min_similarity=0.51, chunks=both).compute()
        want = KERNEL.join(TREES, other, min_similarity=0.51)
        assert got.shape == want.shape
        assert got.rows.tolist() == want.rows.tolist()
        assert got.columns.tolist() == want.columns.tolist()
        np.testing.assert_allclose(got.values, want.values, rtol=1e-12)


def test_an_index_is_asked_by_all_partitions():
    index = KERNEL.index(OTHERS)
    got = tkd.top_k(KERNEL, TREES, index, k=3, chunks=40)
    check_neighbours(got, index.top_k(TREES, k=3), TREES, OTHERS)
    found = tkd.join(KERNEL, TREES, index, min_similarity=0.6, chunks=40).compute()
    want = index.join(TREES, min_similarity=0.6)
    assert found.columns.tolist() == want.columns.tolist()
    np.testing.assert_allclose(found.values, want.values, rtol=1e-12)


def test_pairs_are_handed_on_where_they_are_found():
    kept = []
    found = tkd.join(
        KERNEL,
        TREES,
        chunks=40,
        min_similarity=0.5,
        out=lambda *pairs: kept.append(pairs),
    ).compute()
    want = KERNEL.join(TREES, min_similarity=0.5)
    assert len(found.rows) == 0
    assert sum(len(rows) for rows, _, _ in kept) == len(want.rows)


def test_a_kernel_whose_index_is_another_kernels_is_asked_as_well():
    kernel = tk.SubpathKernel(0.4)
    got = tkd.gram(kernel, TREES[:20], OTHERS[:9], chunks=7)
    check_matrix(got, kernel, TREES[:20], OTHERS[:9])


def test_vectors_are_those_of_one_machine():
    encoder = tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 64)
    got = tkd.encode(encoder, TREES, chunks=35)
    assert got.chunks == ((35, 35, 20), (64,))
    assert got.compute().tolist() == encoder.encode(TREES).tolist()
    for vectorizer in (
        tk.TreeVectorizer(KERNEL, n_features=512),
        tk.TreeVectorizer(KERNEL).fit(TREES),
        tk.TreeNystroem(KERNEL, 5, random_state=0).fit(TREES),
    ):
        blocks = tkd.vectorize(vectorizer, TREES, chunks=35)
        want = vectorizer.transform(TREES)
        got = blocks.compute()
        assert blocks.shape == want.shape
        assert type(got) is type(want)
        if isinstance(want, np.ndarray):
            np.testing.assert_allclose(got, want, rtol=1e-12)
        else:
            assert got.dtype == want.dtype
            assert (got != want).nnz == 0


def test_partitions_may_be_made_by_tasks_and_are_counted():
    parts = [delayed(texts)(n, seed) for seed, n in enumerate((7, 0, 12))]
    trees = [text for seed, n in enumerate((7, 0, 12)) for text in texts(n, seed)]
    for chunks in (None, (7, 0, 12)):
        both = None if chunks is None else (chunks, chunks)
        got = tkd.gram(KERNEL, parts, chunks=both)
        assert got.chunks == ((7, 0, 12), (7, 0, 12))
        check_matrix(got, KERNEL, trees)
    wrong = tkd.gram(KERNEL, parts, chunks=((7, 1, 11), (7, 1, 11)))
    with pytest.raises(
        ValueError, match=r"chunks: partition [12] has \d+ trees, expected"
    ):
        wrong.compute()


def test_blocks_go_to_a_file_one_by_one(tmp_path: Path):
    want = KERNEL.gram(TREES, dtype=np.float32)
    got = tkd.gram(KERNEL, TREES, chunks=25, dtype=np.float32)
    path = tmp_path / "k.npy"
    file = pickle.loads(pickle.dumps(tkd.NpyFile(path, got.shape, got.dtype)))
    da.store(got, file, lock=False)
    assert np.load(path).tolist() == want.tolist()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: tkd.gram(KERNEL, TREES, chunks=(1, 2, 3)),
            "chunks must be an int or a pair",
        ),
        (
            lambda: tkd.gram(KERNEL, [delayed(texts)(3)], chunks=3),
            "1 partitions, got 3",
        ),
        (lambda: tkd.gram(KERNEL, TREES, dtype=int), "dtype must be"),
        (lambda: tkd.top_k(KERNEL, TREES, k=0), "k must be"),
        (
            lambda: tkd.top_k(tk.SubtreeKernel(), TREES, KERNEL.index(OTHERS)),
            "Y must be an index of SubtreeKernel",
        ),
        (lambda: tkd.fit_svm(KERNEL, TREES, Y[:3]), r"y must be of shape \(90,\)"),
        (lambda: tkd.fit_svm(KERNEL, TREES, 2 * Y), "y must be -1 or 1, got"),
        (lambda: tkd.fit_svm(KERNEL, TREES, Y, loss="log"), "loss must be"),
        (
            lambda: tkd.fit_svm(KERNEL, TREES, Y, intercept="feature"),
            "intercept must be",
        ),
        (lambda: tkd.fit_svm(KERNEL, TREES, Y, tol=0), "tol must be above 0"),
        (lambda: tkd.fit_perceptron(KERNEL, TREES, Y, n_iter=0), "n_iter must be"),
    ],
)
def test_wrong_parameters_are_named(call: Any, expected: str):
    with pytest.raises(ValueError, match=expected):
        call()


def test_without_dask_the_import_says_what_to_install():
    code = "import sys; sys.modules['dask'] = None\nimport treekernel_rs.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install '.[dask]'" in done.stderr


# --- Models ---------------------------------------------------------------------------


def objective(model: tk.DagModel, kernel: Any, C: float, loss: str) -> float:
    """|w|²/2 and what all trees cost, from a machine's scores alone."""
    scores = model.decision_function(TREES)
    weights, *_ = np.linalg.lstsq(kernel(TREES), scores - model.intercept, rcond=None)
    costs = np.maximum(0, 1 - Y * scores)
    costs = costs**2 if loss == "squared_hinge" else costs
    return weights @ (scores - model.intercept) / 2 + C * costs.sum()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", ["free", "none"])
@pytest.mark.parametrize("chunks", [90, 31, (1, 2, 0, 87)])
def test_the_gap_of_a_merged_machine_is_that_of_the_whole_problem(
    loss, intercept, chunks
):
    options = {"loss": loss, "intercept": intercept, "C": 2.0}
    got = tkd.fit_svm(KERNEL, TREES, Y, chunks=chunks, tol=1e-5, **options)
    alone = tk.solve.KernelMachine(KERNEL, TREES, Y, **options)
    assert alone.run(tol=1e-7)
    best = alone.objective[0]
    assert 0 <= got.dual_gap[0] <= 1e-5 * got.objective[0]
    assert best - 1e-9 <= got.objective[0] <= best + got.dual_gap[0] + 1e-9
    assert got.objective[0] == pytest.approx(objective(got.model, KERNEL, 2.0, loss))
    want = alone.model().decision_function(OTHERS)
    np.testing.assert_allclose(got.model.decision_function(OTHERS), want, atol=0.02)


def test_several_machines_are_trained_together():
    both = np.stack([Y, np.where(np.arange(90) % 7 < 3, 1.0, -1.0)], axis=1)
    got = tkd.fit_svm(KERNEL, TREES, both, chunks=31, tol=1e-4)
    assert got.dual_gap.shape == (2,)
    assert (got.dual_gap <= 1e-4 * got.objective).all()
    one = tkd.fit_svm(KERNEL, TREES, both[:, 1], chunks=31, tol=1e-4)
    assert got.objective[1] == pytest.approx(one.objective[0], rel=3e-4)


def test_too_few_rounds_warn_and_say_how_far_it_is():
    noise = np.where(np.random.default_rng(0).random(90) < 0.5, 1.0, -1.0)
    with pytest.warns(RuntimeWarning, match="duality gap is .* raise max_rounds"):
        got = tkd.fit_svm(KERNEL, TREES, noise, chunks=9, tol=1e-9, max_rounds=1)
    assert len(got.gaps) == 1


def test_one_partition_is_the_perceptron_of_one_machine():
    perceptron = tk.Perceptron(KERNEL, "average")
    for _ in range(3):
        perceptron.partial_fit(TREES, Y)
    got = tkd.fit_perceptron(KERNEL, TREES, Y, n_iter=3)
    np.testing.assert_allclose(
        got.model.decision_function(OTHERS),
        perceptron.decision_function(OTHERS) / 270,
        rtol=1e-9,
    )
    assert sum(got.n_mistakes) == perceptron.n_mistakes


@pytest.mark.parametrize("average", [True, False])
def test_mixtures_are_means_of_what_partitions_learn(average):
    kernel, ends = tk.SubsetTreeKernel(0.5), [0, 40, 90]
    model, total = tk.DagModel(kernel), np.zeros(len(OTHERS))
    for _ in range(3):
        mixed = tk.DagModel(kernel)
        for start, end in pairwise(ends):
            last, versions, _ = model._pass(TREES[start:end], Y[start:end])
            mixed.merge(last, (end - start) / 90)
            total += versions.decision_function(OTHERS)
        model = mixed
    want = total / 270 if average else model.decision_function(OTHERS)
    got = tkd.fit_perceptron(
        kernel, TREES, Y, n_iter=3, average=average, chunks=(40, 50)
    )
    np.testing.assert_allclose(
        got.model.decision_function(OTHERS), want, rtol=1e-9, atol=1e-12
    )


# --- Clusters of processes ------------------------------------------------------------


def cluster(n: int, **options: Any) -> AbstractContextManager[Client]:
    return LocalCluster(
        n_workers=n,
        threads_per_worker=1,
        dashboard_address=None,
        **{"memory_limit": "1GB", **options},
    )


def everything() -> dict[str, Any]:
    """One of each, by the scheduler that is at work."""
    encoder = tk.DistributedTrees(tk.SubsetTreeKernel(0.4), 64)
    hashing = tk.TreeVectorizer(KERNEL, n_features=512, n_jobs=1)
    lazy = {
        "single": tkd.gram(KERNEL, TREES, chunks=31, dtype=np.float32),
        "double": tkd.gram(KERNEL, TREES, OTHERS, chunks=(31, 17)),
        "near": tkd.top_k(KERNEL, TREES, k=4, chunks=31),
        "vectors": tkd.encode(encoder, TREES, chunks=31),
        "columns": tkd.vectorize(hashing, TREES, chunks=31),
    }
    (done,) = dask.compute(lazy)
    # By itself: Dask 2026.8 mixes up arrays and what is delayed in one call.
    done["pairs"] = tkd.join(KERNEL, TREES, min_similarity=0.5, chunks=31).compute()
    svm = tkd.fit_svm(KERNEL, TREES, Y, chunks=31)
    mixture = tkd.fit_perceptron(KERNEL, TREES, Y, n_iter=2, chunks=31)
    done["columns"] = done["columns"].toarray()
    done["svm"] = svm.model.to_arrays()
    done["mixture"] = mixture.model.to_arrays()
    return done


def same(a: Any, b: Any) -> bool:
    return pickle.dumps(a) == pickle.dumps(b)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_clusters_of_any_size_give_the_bits_of_one_process(n: int):
    want = everything()
    with (
        cluster(n) as local,
        Client(local, set_as_default=True),
        dask.config.set(scheduler="distributed"),
    ):
        got = everything()
    for name, value in want.items():
        assert same(value, got[name]), name
    assert got["single"].tolist() == KERNEL.gram(TREES, dtype=np.float32).tolist()
    near = got["near"].values, KERNEL.top_k(TREES, k=4).values
    assert near[0].astype(np.float32).tolist() == near[1].astype(np.float32).tolist()


def slowly(number: int, folder: Path) -> list[str]:
    """Trees of a partition, made once by each worker that needs them, and noted."""
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(0.3)
    return texts(10, seed=number)


@pytest.mark.slow
@pytest.mark.posix
def test_a_worker_that_is_killed_midway_changes_nothing(tmp_path: Path):
    parts = [delayed(slowly)(number, tmp_path) for number in range(8)]
    sizes = 8 * (10,)
    with (
        cluster(2) as local,
        Client(local) as client,
        dask.config.set(scheduler="distributed"),
    ):
        matrix = tkd.gram(KERNEL, parts, chunks=(sizes, sizes), dtype=np.float32)
        file = tkd.NpyFile(tmp_path.with_suffix(".npy"), (80, 80), np.float32)
        future = client.compute(da.store(matrix, file, lock=False, compute=False))
        while len(list(tmp_path.iterdir())) < 4:
            time.sleep(0.02)
        # One of the two that are at work.
        worker = int(sorted(tmp_path.iterdir())[0].name.split("-")[1])
        os.kill(worker, signal.SIGKILL)
        future.result(timeout=300)
    got = np.load(file.path)
    again = len(list(tmp_path.iterdir()))
    trees = [text for number in range(8) for text in texts(10, seed=number)]
    assert got.tolist() == KERNEL.gram(trees, dtype=np.float32).tolist()
    assert again > 8  # what was lost was made again


@pytest.mark.slow
def test_what_is_spilled_comes_back_as_it_was():
    trees = texts(1200, seed=3)
    limits = {"distributed.worker.memory.target": 0.002, "scheduler": "distributed"}
    with dask.config.set(limits), cluster(1) as local, Client(local) as client:
        matrix = tkd.gram(KERNEL, trees, chunks=300, dtype=np.float32).persist()
        distributed.wait(matrix)
        spilled = client.run(lambda dask_worker: len(dask_worker.data.slow))
        assert min(spilled.values()) > 0
        got = matrix.compute()
    assert got.tolist() == KERNEL.gram(trees, dtype=np.float32).tolist()
