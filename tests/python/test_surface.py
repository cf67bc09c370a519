"""The surface: the names of the package, and the words that all of them share."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treekernel_rs as tk


def test_the_package_shows_at_most_forty_names() -> None:
    assert dir(tk) == sorted(tk.__all__)
    assert len(set(dir(tk))) == len(dir(tk)) <= 40
    shown = {name for name in dir(tk) if not name.startswith("_")}
    foreign = [
        name
        for name in shown
        if not getattr(
            getattr(tk, name), "__module__", getattr(tk, name).__name__
        ).startswith("treekernel_rs")
    ]
    assert foreign == []


def public_modules() -> list[str]:
    found = pkgutil.walk_packages(
        tk.__path__, f"{tk.__name__}.", onerror=lambda _: None
    )
    return [module.name for module in found if "._" not in module.name]


@pytest.mark.parametrize("name", public_modules())
def test_a_module_shows_its_names_and_no_imports(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))
    path = Path(module.__file__)
    (listed,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "__all__"
    )
    assert dir(module) == sorted(listed)
    assert [shown for shown in dir(module) if not hasattr(module, shown)] == []


def test_no_module_hides_a_function_or_a_class() -> None:
    modules = {module.name for module in pkgutil.iter_modules(tk.__path__)}
    for name in modules & set(dir(tk)):
        assert inspect.ismodule(getattr(tk, name)), name


def test_help_names_everything_in_one_screen() -> None:
    page = inspect.getdoc(tk)
    assert len(page.splitlines()) <= 35
    assert all(len(line) <= 84 for line in page.splitlines())
    missing = [name for name in dir(tk) if name != "__version__" and name not in page]
    assert missing == []


def test_importing_the_package_imports_no_scikit_learn() -> None:
    code = (
        "import sys, treekernel_rs as tk; dir(tk); assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_can_be_imported_by_a_star() -> None:
    code = "from treekernel_rs import *; TreeSVC, SubsetTreeKernel, kernels.Gaussian"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_methods_of_tree_kernels_are_written_once() -> None:
    methods = ("gram", "rows", "pairs", "top_k", "join", "pair", "diag", "index")
    for name in methods:
        assert inspect.getdoc(getattr(tk.TreeKernel, name))
    for kernel in (*TREE_KERNELS.values(), *COMPOSED_KERNELS.values()):
        assert issubclass(kernel, tk.TreeKernel)
        assert [name for name in methods if name in vars(kernel)] == []


def test_kernels_of_trees_and_pairs_and_distances_have_the_same_methods() -> None:
    for name in ("__call__", "rows", "pairs"):
        of_trees = getattr(tk.TreeKernel, name)
        assert (
            of_trees is getattr(tk.PairKernel, name) is getattr(tk.EditDistance, name)
        )
    assert tk.TreeKernel.top_k is tk.PairKernel.top_k
    shared = inspect.signature(tk.TreeKernel.top_k).parameters
    of_distances = [*inspect.signature(tk.EditDistance.top_k).parameters]
    of_distances.remove("max_distance")
    assert of_distances == [*shared]
    for name in ("diag", "join"):
        assert getattr(tk.TreeKernel, name) is getattr(tk.PairKernel, name)


TREE_KERNELS, COMPOSED_KERNELS = (
    vars(importlib.import_module("treekernel_rs.tree_kernels"))[name]
    for name in ("TREE_KERNELS", "COMPOSED_KERNELS")
)


def learners() -> list[type]:
    """Everything that learns: estimators, and models without scikit-learn."""
    pytest.importorskip("sklearn", reason="the extra sklearn is not installed")
    found = [getattr(tk, name) for name in dir(tk)]
    found = [value for value in found if hasattr(value, "fit")]
    assert len(found) == 14
    return [*found, tk.DagModel, tk.Perceptron, tk.solve.KernelMachine]


def test_what_learns_has_the_words_of_scikit_learn() -> None:
    for learner in learners():
        assert not hasattr(learner, "learn")
        assert not hasattr(learner, "vote")
        # A score is an accuracy, R² or a share of preferences, and needs an y; margins are
        # those of decision_function.
        if hasattr(learner, "score"):
            assert list(inspect.signature(learner.score).parameters)[1:3] == ["X", "y"]
    for model in (tk.DagModel, tk.Perceptron, tk.solve.KernelMachine):
        assert hasattr(model, "decision_function")
        assert not hasattr(model, "score")


def test_an_estimator_needs_no_kernel_and_takes_it_first() -> None:
    trees, y = ["(S (A a))", "(S (A b))", "(S (B b))", "(S (B c))"], [0, 0, 1, 1]
    for learner in learners()[:14]:
        first, *others = inspect.signature(learner).parameters.values()
        assert (first.name, first.default) == ("kernel", None)
        # One more stands by its place, as C or n_neighbors; all others are given by name.
        assert sum(p.kind is not p.KEYWORD_ONLY for p in others) <= 1
        made, given = (
            learner(*kernel).set_params(**{"n_neighbors": 1} if "KN" in name else {})
            for name in [learner.__name__]
            for kernel in ([], [tk.SubsetTreeKernel(0.4)])
        )
        for estimator in (made, given):
            estimator.fit(trees, y)
        assert made.kernel_ == given.kernel_


def test_a_module_imports_no_private_names_of_another() -> None:
    package = Path(tk.__path__[0])
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in package.rglob("*.py")
    }
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {name.name} of {node.module}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("treekernel_rs.")
        for name in node.names
        if re.match(r"_[^_]", name.name) and f"{node.module}.{name.name}" not in modules
    ]
    assert found == []


def test_what_draws_has_a_random_state_that_is_none() -> None:
    drawing = {
        learner.__name__: inspect.signature(learner).parameters["random_state"].default
        for learner in learners()[:14]
        if "random_state" in inspect.signature(learner).parameters
    }
    assert len(drawing) == 9
    assert set(drawing.values()) == {None}


def test_the_number_of_neighbours_is_given_by_name_behind_the_trees() -> None:
    asked = [tk.TreeKernel, tk.PairKernel, tk.EditDistance, tk.TreeIndex]
    if importlib.util.find_spec("dask"):
        asked.append(importlib.import_module("treekernel_rs.dask"))
    for owner in asked:
        k = inspect.signature(owner.top_k).parameters["k"]
        assert (k.kind, k.default) == (k.KEYWORD_ONLY, 10)
    pytest.importorskip("sklearn", reason="the extra sklearn is not installed")
    for name in ("Classifier", "Regressor", "Transformer"):
        parameters = inspect.signature(getattr(tk, f"TreeKNeighbors{name}")).parameters
        assert list(parameters)[:2] == ["kernel", "n_neighbors"]
