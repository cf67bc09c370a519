"""The recipes of CONTRIBUTING.md: what they name is there, and every kernel followed them."""

import inspect
import re
from pathlib import Path

import kernel_oracle as ko
import pytest
import test_kernel_oracle
import test_kernels

import treekernel_rs as tk
from treekernel_rs import kernels
from treekernel_rs.tree_kernels import TREE_KERNELS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = [
    section
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)
    if section.startswith("Adding a ")
]
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for folder, pattern in (
        ("src", "**/*.rs"),
        ("python", "**/*.py"),
        ("tests", "**/*.py"),
    )
    for path in (ROOT / folder).glob(pattern)
    if path.name != Path(__file__).name
)
MODULE = (ROOT / "src/kernel/mod.rs").read_text(encoding="utf-8")


def code(recipe: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", recipe)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.split("\n")[0])
def test_what_a_recipe_names_is_there(recipe):
    paths = [name for name in code(recipe) if re.search(r"/|\.md$", name)]
    assert paths
    for path in paths:
        if "<" not in path:
            assert (ROOT / path).exists(), path
    for name in set(code(recipe)) - set(paths):
        # The last word of what is written out: a macro, a type, a function, a table.
        for word in re.findall(
            r"[A-Za-z_]\w{2,}", re.sub(r"<.*?>|make .*|--\w+", "", name)
        ):
            assert re.search(rf"\b{word}\b", SOURCES), name


def test_what_users_implement_has_one_hidden_hook():
    trait = MODULE[MODULE.index("pub trait Kernel:") : MODULE.index("impl dyn Kernel")]
    assert trait.count("#[doc(hidden)]") == 1
    assert re.search(r"#\[doc\(hidden\)\]\n    fn builtin\(&self\)", trait)


def sources_of(name: str) -> tuple[str, Path]:
    struct = name.removesuffix("Kernel")
    module = next(
        path
        for path in (ROOT / "src/kernel").glob("*.rs")
        if re.search(rf"^    {struct} new\(", path.read_text("utf-8"), re.MULTILINE)
    )
    return struct, module


@pytest.mark.parametrize("name", list(TREE_KERNELS))
def test_every_kernel_followed_the_recipe(name):
    # 1. Its file.
    struct, module = sources_of(name)
    text = module.read_text(encoding="utf-8")
    head, _, body = text.partition("\n\n")
    assert "```text" in head
    assert "# Complexity" in head
    for part in ("described!();", "fn definition(", "fn pairs(", "Builtin::new(self)"):
        assert part in body, part
    # 2. Its lines in the module.
    lines = [
        rf"^(pub\(crate\) )?mod {module.stem};",
        rf"^pub use {module.stem}::.*{struct}",
        rf"^        Arc::new\({struct}::default\(\)\),",
        rf"^//! \| \[`{struct}`\] \|",
    ]
    for line in lines:
        assert re.search(line, MODULE, re.MULTILINE), line
    # 3. and 4. Its class, with an example.
    assert name in kernels.__all__
    assert name in tk.__all__
    page = inspect.getdoc(getattr(tk, name)) or ""
    assert re.search(rf"^>>> .*\btk\.{name}\(", page, re.MULTILINE)
    # 5. Its formula.
    math = (ROOT / "docs/MATH.md").read_text(encoding="utf-8")
    assert f"`src/kernel/{module.name}`" in math
    assert re.search(rf"^## .*`{name}`", math, re.MULTILINE)
    # 6. Its oracles.
    tables = [
        ko.VECTORS,
        ko._PARAMETERS,
        test_kernel_oracle.RECURSIONS,
        test_kernels.DEFAULTS,
        {kernel for kernel, _ in test_kernels.PARAMETERS},
    ]
    assert all(name in table for table in tables)
