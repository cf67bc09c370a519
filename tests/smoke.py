"""Try an installed treekernel_rs that has nothing but numpy beside it.

    python smoke.py [VERSION]

Run by `.ci/release-check` and by the workflow `wheels`, in an empty environment and away from
the sources. VERSION is the one that must be installed.
"""

import os
import pickle
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import treekernel_rs as tk

LINES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
    "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)))",
    "(NP (DT the) (NN cat))",
]

# What is imported is what was installed.
distribution = metadata.distribution("treekernel_rs")
assert tk.__version__ == distribution.version == (sys.argv[1:] or [tk.__version__])[0]
package = Path(tk.__file__).resolve()
assert package.is_relative_to(Path(sys.prefix).resolve()), package
assert package.with_name("py.typed").is_file()
assert package.with_name("_core.pyi").is_file()
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled()

# Trees, and kernels of all recursions; the first matrix stands in the README.
forest = tk.Forest.from_brackets(LINES)
assert list(forest.n_nodes) == [9, 9, 5]
assert tk.Forest.from_brackets(forest.to_brackets()) == forest
kernel = tk.SubsetTreeKernel(0.4, normalize=True)
K = kernel(forest)
expected = [[1, 0.816, 0.399], [0.816, 1, 0.399], [0.399, 0.399, 1]]
assert np.array_equal(K.round(3), expected)
for kind in (
    tk.SubtreeKernel,
    tk.SubsetTreeKernel,
    tk.PartialTreeKernel,
    tk.ElasticTreeKernel,
    tk.SubpathKernel,
):
    matrix = kind()(forest, n_jobs=2)
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert np.isclose(matrix[0, 1], kind().pair(forest[0], forest[1]))
sum_of_two = kernel + tk.SubpathKernel(0.5)
assert np.allclose(sum_of_two(forest), K + tk.SubpathKernel(0.5)(forest))

# What is alike, distances, vectors, models.
nearest = kernel.top_k(forest, k=1)
assert nearest.indices[:2].ravel().tolist() == [1, 0]
assert len(kernel.join(forest, min_similarity=0.8).rows) == 1
assert tk.EditDistance()(forest)[0, 1] == 1
vectors = tk.DistributedTrees(kernel, 4096).encode(forest)
assert np.abs(vectors @ vectors.T - K).max() < 0.1
model = tk.DagModel(kernel)
model.add(LINES[:2], [1.0, -1.0])
assert np.isclose(model.decision_function(LINES[:1])[0], 1 - K[0, 1])
perceptron = tk.Perceptron(kernel).partial_fit(forest, np.array([1.0, -1.0, -1.0]))
assert perceptron.decision_function(forest).shape == (3,)

# Saved and loaded.
assert pickle.loads(pickle.dumps(forest)) == forest
handle, path = tempfile.mkstemp()
os.close(handle)
tk.save(model, path)
scores = tk.load(path).decision_function(LINES)
assert np.array_equal(scores, model.decision_function(LINES))
Path(path).unlink()


def error_of(kind: type[Exception], call: Callable[[], object]) -> Exception:
    """Return the error that a call must raise."""
    try:
        call()
    except kind as error:
        return error
    sys.exit(f"expected {kind.__name__}, got none")


# Errors have a type and a place, and name the extra that is missing.
broken = error_of(tk.ParseError, lambda: tk.Forest.from_brackets("(S (A a)"))
assert broken.offset == 8
if find_spec("sklearn") is None:
    missing = error_of(ImportError, tk.TreeSVC)
    assert "treekernel_rs[sklearn]" in str(missing)

print(f"treekernel_rs {tk.__version__} works on Python {sys.version.split()[0]}")
