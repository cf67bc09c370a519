"""Documentation that cannot rot: docstrings, stubs, pages, links and code blocks."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import treekernel_rs as tk
from treekernel_rs import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
STUB = Path(tk.__file__).with_name("_core.pyi")
#: One page is a Markdown file of the project.
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "benches/*.md")
    for page in ROOT.glob(pattern)
)


# --- Names -------------------------------------------------------------------------


#: Modules with public names that are not among those of the package.
MODULES = ("kernels", "readers", "datasets", "solve", "neighbors", "index", "dag")
MODULES += ("drawing", "pairs", "metrics", "nodes", "comparing", "gaussian_process")


def public_names() -> Iterator[tuple[str, Any]]:
    """Classes and functions that a user can name, modules' included, each once."""
    seen = set()
    for module in (tk, *(getattr(tk, name) for name in MODULES)):
        path = module.__name__.removeprefix("treekernel_rs").removeprefix(".")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType | str) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{path}.{name}".removeprefix("."), value


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """What a class of this package adds: methods and properties, inherited ones too."""
    for name in sorted(dir(owner)):
        # scikit-learn makes set_..._request of the signatures of fit and others.
        if name.startswith("_") or re.fullmatch("set_.*_request", name):
            continue
        where = next(c for c in owner.__mro__ if name in vars(c))
        if where.__module__.startswith("treekernel_rs"):
            yield name, inspect.getattr_static(owner, name)


NAMES = dict(public_names())
MEMBERS = {
    f"{name}.{member}": (owner, member, value)
    for name, owner in NAMES.items()
    if inspect.isclass(owner)
    for member, value in members(owner)
}


def own_doc(value: Any) -> str:
    """The docstring, without the base class's or `object`'s."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    return inspect.cleandoc(getattr(value, "__doc__", None) or "")


def examples(doc: str) -> str:
    return "".join(
        example.source for example in doctest.DocTestParser().get_examples(doc)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    doc = own_doc(NAMES[name])
    assert re.search(r"^Examples\n-{8}\n", doc, re.MULTILINE)
    assert name.rpartition(".")[2] in examples(doc) or isinstance(NAMES[name], type)
    assert examples(doc)
    summary = doc.split("\n\n")[0]
    assert summary.endswith("."), f"the first paragraph should be a sentence: {summary}"


@pytest.mark.parametrize("name", MEMBERS)
def test_a_public_method_is_explained_and_shown(name: str) -> None:
    owner, member, value = MEMBERS[name]
    if inspect.ismemberdescriptor(value) or isinstance(value, property | str):
        # Fields: the class's docstring lists them, or they have their own.
        assert own_doc(value) or re.search(rf"\b{member}\b", own_doc(owner))
        return
    assert own_doc(value)
    # An example of its own, or one of its class's that uses it.
    shown = examples(own_doc(value)) + examples(own_doc(owner))
    assert re.search(rf"\b{member}\b", shown), f"no example shows {name}"


@pytest.mark.parametrize("name", [*NAMES, *MEMBERS])
def test_documented_parameters_are_those_of_the_signature(name: str) -> None:
    value = NAMES[name] if name in NAMES else getattr(*MEMBERS[name][:2])
    section = re.search(
        r"^Parameters\n-{10}\n(.*?)(?=\n\w[\w ]+\n-{3,}\n|\Z)",
        inspect.getdoc(value) or "",
        re.MULTILINE | re.DOTALL,
    )
    if section is None:
        return
    heads = re.findall(r"^(\S.*?) ?(?::.*)?$", section[1], re.MULTILINE)
    # A paragraph after the list is not part of it: heads are names only.
    named = [
        word.strip().lstrip("*")
        for head in heads
        if re.fullmatch(r"[\w*]+(, [\w*]+)*", head)
        for word in head.split(",")
    ]
    parameters = [p for p in inspect.signature(value).parameters if p != "self"]
    assert named == parameters


#: Classes of the extension. Module doctests miss their properties and static methods.
NATIVE = {name for name, value in NAMES.items() if value in vars(_core).values()}
NATIVE_DOCS = {
    **{name: own_doc(NAMES[name]) for name in NATIVE},
    **{
        n: own_doc(v)
        for n, (_, _, v) in MEMBERS.items()
        if n.rpartition(".")[0] in NATIVE
    },
}


@pytest.mark.parametrize("name", sorted(NATIVE_DOCS))
def test_examples_of_native_docstrings_run(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(NATIVE_DOCS[name], {}, name, None, 0)
    outcome = []
    result = doctest.DocTestRunner().run(test, out=outcome.append)
    assert result.failed == 0, "".join(outcome)


# --- Types -------------------------------------------------------------------------


def functions_of(
    node: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from functions_of(child, f"{prefix}{child.name}.")


SOURCES = [*sorted(STUB.parent.rglob("*.py")), STUB]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(STUB.parent)))
def test_every_function_says_what_it_takes_and_returns(path: Path) -> None:
    missing = []
    for name, function in functions_of(ast.parse(path.read_text("utf-8"))):
        args = function.args
        named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        named += [arg for arg in (args.vararg, args.kwarg) if arg]
        if function.returns is None:
            missing.append(f"{name} -> ?")
        missing += [
            f"{name}({arg.arg})"
            for arg in named
            if arg.annotation is None and arg.arg not in ("self", "cls", "slf")
        ]
    assert missing == []


def test_the_stub_names_all_public_members_of_the_native_classes() -> None:
    known = dict(functions_of(ast.parse(STUB.read_text("utf-8"))))
    classes = NATIVE - {"ParseError"}
    native = [name for name in MEMBERS if name.rpartition(".")[0] in classes]
    assert native
    without_module = [".".join(name.split(".")[-2:]) for name in native]
    assert [name for name in without_module if name not in known] == []


def test_the_package_is_marked_as_typed() -> None:
    assert STUB.with_name("py.typed").exists()


# --- Pages -------------------------------------------------------------------------


def prose(text: str) -> str:
    """A page without its code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(
        r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


LINKS = [
    pytest.param(page, target, id=f"{page.name}-{target}")
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8")))
    if "://" not in target
]


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_relative_link_leads_somewhere(page: Path, target: str) -> None:
    path, _, place = target.partition("#")
    there = (page.parent / path).resolve() if path else page
    assert there.exists()
    assert there.is_relative_to(ROOT)
    if place:
        assert place in anchors(there)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_path_in_the_text_exists(page: Path) -> None:
    folders = "src|tests|benches|examples|docs|python|fuzz"
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


#: What may stand in a fence, and why it does not rot.
FENCES = {
    "pycon": "runs as a doctest",
    "rust": "compiled with the crate's documentation",
    "sh": "commands",
    "text": "output, notation",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_of_python_is_a_doctest(page: Path) -> None:
    fence, code = None, []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if not line.startswith("```"):
            code.append(line)
        elif fence is None:
            fence, code = line.removeprefix("```"), []
            assert fence in FENCES, f"line {number}: a fence of {fence or 'nothing'}"
        else:
            if fence == "pycon":
                assert code[0].startswith(">>> "), f"line {number}: no >>> in it"
                # Else the doctest would take the end of the block for output.
                assert code[-1] == "", f"line {number}: end the block by an empty line"
            fence = None
    assert fence is None, "a fence stays open"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_only_pages_whose_doctests_are_run_have_any(page: Path) -> None:
    run = page.name == "README.md" or page.parent.name == "docs"
    assert run or ">>>" not in page.read_text("utf-8")


GUIDE = (ROOT / "docs/GUIDE.md").read_text("utf-8")
SECTIONS = {
    part.splitlines()[0].lstrip("# "): part
    for part in re.split(r"^(?=##)", GUIDE, flags=re.MULTILINE)
    if ">>> " in part
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_of_the_guide_runs_by_itself(name: str) -> None:
    pytest.importorskip("sklearn", reason="the guide is about estimators")
    if "import pandas" in SECTIONS[name]:
        pytest.importorskip("pandas", reason="the section is about data frames")
    test = doctest.DocTestParser().get_doctest(SECTIONS[name], {}, name, None, 0)
    outcome: list[str] = []
    result = doctest.DocTestRunner().run(test, out=outcome.append)
    assert result.failed == 0, "".join(outcome)


def test_the_example_of_sentence_pairs_has_the_sets_that_the_paper_has() -> None:
    page = (ROOT / "docs/PAIRS.md").read_text("utf-8")
    scope: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(page):
        exec(example.source, scope)
        if example.source.startswith("pairs = tk.PairForest.anchored"):
            break
    found = tk.PairKernel(1.0, method="paper").constraints(*scope["pairs"])
    # The paper gives breast the number 5 and milk 4, where words are numbered in order.
    paper = {1: 1, 3: 3, 4: 5, 5: 4}
    sets = {frozenset((a, paper[b]) for a, b in pairs) for pairs in found}
    assert sets == {frozenset({(1, 1)}), frozenset({(1, 3), (3, 4), (2, 5)})}


def test_a_page_says_which_graph_is_for_which_estimator() -> None:
    page = (ROOT / "docs/FINDING.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if "UMAP" in line and "|" in line]
    assert "HDBSCAN" in row
    assert "symmetric=True" in row


def test_a_page_says_what_an_index_does_with_similar_labels() -> None:
    asked = []

    def similar(x: str, y: str) -> float:
        asked.append((x, y))
        return 0.0

    kernel = tk.PartialTreeKernel(similarity=tk.kernels.TableSimilarity(similar))
    index = kernel.index(["(N (cat))", "(N (cow))"]).build()
    asked.clear()
    index.gram(["(N (cap))"])
    is_asked_again = ("cat", "cow") in asked
    page = " ".join((ROOT / "docs/KERNELS.md").read_text("utf-8").split())
    assert ("A `TreeIndex` saves little" in page) == is_asked_again


#: Where the links of README.md lead: it is read on PyPI too, where relative ones break.
BLOB = "https://github.com/treekernel-rs/treekernel_rs/blob/main/"
RAW = "https://raw.githubusercontent.com/treekernel-rs/treekernel_rs/main/"
README = (ROOT / "README.md").read_text("utf-8")
TARGETS = dict(re.findall(r"^\[(.+?)\]: (\S+)$", README, re.MULTILINE))


def test_the_readme_is_a_screen_and_a_half() -> None:
    text = re.sub(r"^\[.+?\]: \S+\n", "", README, flags=re.MULTILINE)
    assert len(text.splitlines()) <= 120


@pytest.mark.parametrize("name", TARGETS)
def test_a_link_of_the_readme_is_used_and_leads_to_a_file(name: str) -> None:
    assert f"[{name}]" in README.replace(f"[{name}]: ", "")
    target = TARGETS[name]
    assert target.startswith((BLOB, RAW))
    assert (ROOT / target.removeprefix(BLOB).removeprefix(RAW)).is_file()


def test_the_readme_has_no_relative_links() -> None:
    assert re.findall(r"\]\((?!https://)", prose(README)) == []


def test_the_readme_leads_to_every_page() -> None:
    pages = [str(p.relative_to(ROOT)) for p in PAGES if p.name != "README.md"]
    pages += [f"examples/{p.name}" for p in (ROOT / "examples").glob("[!_]*.py")]
    assert [p for p in pages if BLOB + p not in TARGETS.values()] == []


def test_the_reference_describes_and_lists_everything_public() -> None:
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs/conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    pages = "\n".join(
        conf.reference(f"api/{page.stem}", page.read_text("utf-8"))
        for page in ROOT.glob("docs/api/*.rst")
    )
    described = set(re.findall(r"^\.\. auto\w+:: (\S+)$", pages, re.MULTILINE))
    described = {name.removeprefix("treekernel_rs.") for name in described}
    assert set(NAMES) - described == set()
    index = conf.reference("api", (ROOT / "docs/api.rst").read_text("utf-8"))
    listed = set(re.findall(r"^   (\w[\w.]*)$", index, re.MULTILINE))
    assert set(NAMES) - listed == set()


def test_the_first_page_of_the_site_runs() -> None:
    pytest.importorskip("sklearn", reason="it trains a TreeSVC")
    page = ROOT / "docs/index.rst"
    results = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (results.failed, results.attempted) == (0, 5)


def test_pictures_are_what_the_code_draws() -> None:
    pytest.importorskip("sklearn", reason="one picture explains a TreeSVC")
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs/figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    for name, drawing in figures.figures().items():
        kept = (ROOT / f"docs/images/{name}.svg").read_text("utf-8")
        # Weights are those of a solver: their last digits are not the same everywhere.
        short = re.compile(r"(\.\d{2})\d+")
        assert short.sub(r"\1", drawing.svg) == short.sub(r"\1", kept), name
