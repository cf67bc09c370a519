"""Threads that share objects; in Python without the interpreter lock they run at once.

`faults/threads.py` runs everything in threads for longer.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import treekernel_rs as tk

if TYPE_CHECKING:
    from collections.abc import Callable

N_THREADS = 8
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def together(work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(work, range(N_THREADS)))


@pytest.mark.skipif(not FREE, reason="a Python with the interpreter lock")
def test_the_import_leaves_the_interpreter_lock_off() -> None:
    code = "import sys, treekernel_rs; print(sys._is_gil_enabled())"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_threads_that_share_an_iterator_get_each_tree_once() -> None:
    forest = tk.Forest.from_brackets([f"(A t{i})" for i in range(20_000)])
    shared = iter(forest)
    got = together(lambda _: [str(tree) for tree in shared])
    counts = Counter(text for texts in got for text in texts)
    assert counts == Counter(forest.to_brackets())


def test_threads_that_share_an_iterator_get_each_pair_once() -> None:
    texts = [f"(A t{i})" for i in range(2_000)]
    shared = iter(tk.PairForest.from_brackets(texts, texts))
    got = together(lambda _: [pair.left for pair in shared])
    assert Counter(text for texts in got for text in texts) == Counter(texts)


def test_an_index_has_the_trees_of_all_threads_that_add_to_it() -> None:
    """Its `forest`, too, whichever call is the last to return."""
    index = tk.SubsetTreeKernel(0.4, normalize=True).index(["(S s)"])

    def add(thread: int) -> None:
        for i in range(50):
            while True:
                seen = len(index)
                try:
                    index.add([f"(A t{thread}x{i})"])
                except RuntimeError as error:
                    if "in use" not in str(error):
                        raise
                else:
                    break
            assert len(index) > seen

    together(add)
    assert len(index) == 1 + 50 * N_THREADS
    assert len(set(index.forest.to_brackets())) == len(index)
    found = index.top_k(index.forest, k=1)
    assert found.indices.ravel().tolist() == list(range(len(index)))
