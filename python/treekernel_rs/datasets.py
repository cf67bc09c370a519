"""Datasets of labelled trees that need no download of their own.

The functions of the standard library are there wherever Python is installed. The others
come with packages of four fields (extra `examples`), are read where these are installed,
and are not copied: forms of web pages, glycans, service models, simulated phylogenies.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import difflib
import gzip
import json
import math
import operator
import platform
import random
import sys
import sysconfig
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from treekernel_rs._core import CodeBuilder, Forest
from treekernel_rs._extras import missing, needed
from treekernel_rs._public import listing
from treekernel_rs.readers import _documents, bio
from treekernel_rs.readers._code import ast_class, functions_in
from treekernel_rs.readers._reading import Table, choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "TreeDataset",
    "forms",
    "glycans",
    "json_models",
    "phylogenies",
    "python_functions",
]
__dir__ = listing(__all__)

# Directories that hold no part of the library proper: tests are written in a style of
# their own, and would tell a classifier "this is a test" rather than the module.
_SKIPPED_DIRECTORIES = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
)

_LEVELS = (
    "Species",
    "Genus",
    "Family",
    "Order",
    "Class",
    "Phylum",
    "Kingdom",
    "Domain",
)

# Some rows of glycowork have another name for the same.
_ALIASES = {"Eukaryota": "Eukarya"}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class TreeDataset:
    """Trees with their classes.

    Attributes
    ----------
    forest : Forest
        The trees, grouped by class: shuffle before you split.
    y : numpy.ndarray of int64, shape (n_trees,)
        Class of each tree, as an index into `classes`.
    classes : list of str
        Names of the classes, sorted.
    names : list of str
        Where each tree comes from. Not necessarily unique: the getter and the setter
        of a property have one name.
    description : str
        What was read, by which Python, with which options.

    Examples
    --------
    >>> import numpy as np, treekernel_rs as tk
    >>> forest = tk.Forest.from_brackets("(S (A a)) (S (B b)) (S (B c))")
    >>> names = ["one", "two", "three"]
    >>> data = tk.datasets.TreeDataset(
    ...     forest, np.array([0, 1, 1]), ["a", "b"], names, "three trees"
    ... )
    >>> [data.classes[k] for k in data.y]
    ['a', 'b', 'b']
    """

    forest: Forest
    y: NDArray[np.int64]
    classes: list[str]
    names: list[str]
    description: str

    def __repr__(self) -> str:
        """Say how much there is of what, not what is in it."""
        nodes = int(self.forest.n_nodes.sum())
        classes = ", ".join(self.classes)
        return (
            f"<TreeDataset: {len(self.names)} trees, {nodes} nodes, "
            f"{len(self.classes)} classes ({classes})>"
        )


def python_functions(
    *,
    classes: Iterable[str] | None = None,
    n_classes: int = 8,
    max_per_class: int | None = 300,
    min_nodes: int = 10,
    max_nodes: int = 300,
    identifiers: bool = False,
    constants: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Read the functions of the installed standard library as syntax trees.

    The class of a function is the top-level module or package it lives in. Two calls
    with one Python installation give the same dataset; another Python version, or a
    distribution that leaves out parts of the library, gives another one.

    Parameters
    ----------
    classes : iterable of str, optional
        Modules to read, for example ``["asyncio", "json"]``. By default the
        `n_classes` modules with the most different functions within the size limits
        (ties go to the name that sorts first), which means parsing the whole library.
    n_classes : int, default 8
        How many modules to choose; not used when `classes` is given.
    max_per_class : int or None, default 300
        At most so many functions of a class, taken at even distances from all of them
        in the order of files and lines. None keeps all.
    min_nodes, max_nodes : int, default 10 and 300
        Limits, both included, to the number of nodes of a tree as it is returned;
        functions outside are left out.
    identifiers : bool, default False
        Add the names of functions, variables, attributes, arguments, keywords and
        imports as leaves.
    constants : bool, default False
        Add the values of constants as leaves, by their `repr`.
    return_X_y : bool, default False
        Return ``(forest, y)`` in place of a `TreeDataset`.

    Returns
    -------
    TreeDataset
        The trees; `names` are qualified, as in ``json.decoder.JSONDecoder.decode``. A
        second call with the same options, in the same process, does not read again.

    Raises
    ------
    ValueError
        If a class is unknown or has no function within the limits, or a number is out
        of range.
    RuntimeError
        If the source of the standard library is not installed.

    Notes
    -----
    A tree mirrors `ast`:

    * A node is labelled with its class, its children are its fields in the order of
      `ast.iter_fields`. Operators are leaves: ``a + b`` is ``(BinOp Name Add Name)``.
    * Fields that could be taken for a neighbour are wrapped in a node with the name of
      the field, unless they are empty: blocks (``body``, ``orelse``, ``finalbody``),
      ``decorator_list``, ``returns``, all of ``arguments`` but its plain ``args``, the
      bounds of a ``Slice``, ``kwd_patterns`` and ``default_value``. An absent element
      of a list (the key of ``**rest`` in a dict, the default of a required
      keyword-only argument) is a leaf ``None``.
    * A constant is ``(Constant type)``, with its value ``(Constant (type value))``.
    * Docstrings, contexts (``Load``, ``Store``, ``Del``), type comments and flags
      stored as integers are dropped.
    * A function inside a function is part of the outer one and not listed by itself,
      as is a class inside a function; methods are listed.

    Tests are skipped, and so are files that do not parse. Equal functions are kept:
    without identifiers that is about one tree in ten of most modules.

    Examples
    --------
    >>> from treekernel_rs.datasets import python_functions
    >>> data = python_functions(classes=["logging", "email"], max_per_class=50)
    >>> data.classes
    ['email', 'logging']
    >>> len(data.forest), data.y.shape
    (100, (100,))
    >>> data.names[0].split(".")[0]
    'email'
    >>> data.forest[0].label
    'FunctionDef'
    """
    n_classes = _checked("n_classes", n_classes, 1)
    if max_per_class is not None:
        max_per_class = _checked("max_per_class", max_per_class, 1)
    min_nodes = _checked("min_nodes", min_nodes, 1)
    max_nodes = _checked("max_nodes", max_nodes, min_nodes)

    root = Path(sysconfig.get_path("stdlib"))
    files = _source_files(root)
    if classes is not None:
        chosen = _checked_classes(classes, files, root)
        files = {name: files[name] for name in chosen}

    options = (n_classes, max_per_class, min_nodes, max_nodes, classes is None)
    switches = bool(identifiers), bool(constants)
    key = (root, tuple(files), *options, *switches)
    if key not in _cached:
        _cached[key] = _library(root, files, *options, *switches)
    return _returned(_cached[key], return_X_y)


# What `python_functions` has read, by what was asked for.
_cached: dict[tuple[Any, ...], TreeDataset] = {}


def _library(
    root: Path,
    files: dict[str, list[Path]],
    n_classes: int,
    max_per_class: int | None,
    min_nodes: int,
    max_nodes: int,
    choose: bool,
    identifiers: bool,
    constants: bool,
) -> TreeDataset:
    describe = ast_class(
        "keep" if identifiers else "blank", "keep" if constants else "type"
    )
    builder = CodeBuilder(describe)
    owners: list[str] = []
    qualified: list[str] = []
    for name, paths in files.items():
        for path in paths:
            for each, node in _functions_of(path, root):
                builder.push_ast(node)
                owners.append(name)
                qualified.append(each)
    forest = builder.finish()
    n_nodes = forest.n_nodes
    fits = np.flatnonzero((n_nodes >= min_nodes) & (n_nodes <= max_nodes)).tolist()
    found: dict[str, list[int]] = {}
    for tree in fits:
        found.setdefault(owners[tree], []).append(tree)
    counts = Counter({name: len(trees) for name, trees in found.items()})
    limits = f"{min_nodes} to {max_nodes} nodes"
    chosen = list(files)
    if choose:
        if n_classes > len(counts):
            msg = (
                f"n_classes must be at most {len(counts)}, the number of modules that "
                f"have functions of {limits}; got {n_classes}"
            )
            raise ValueError(msg)
        # By distinct trees, or generated code would win: of the functions of
        # `encodings` four in five are copies.
        indptr, ids = forest[fits].subtree_ids()
        trees = dict(zip(fits, ids[indptr[:-1]].tolist(), strict=True))
        distinct = {name: len({trees[t] for t in found[name]}) for name in found}
        ranked = sorted(counts, key=lambda name: (-distinct[name], name))
        chosen = sorted(ranked[:n_classes])
    elif empty := [name for name in chosen if name not in counts]:
        msg = f"class {empty[0]!r} has no function of {limits}"
        raise ValueError(msg)

    kept = [_spread(found[name], max_per_class) for name in chosen]
    sizes = [len(each) for each in kept]
    pairs = [tree for each in kept for tree in each]
    description = (
        f"Functions of the standard library of {platform.python_implementation()} "
        f"{platform.python_version()} in {root}, as ast trees.\n"
        f"{len(pairs)} functions of {limits}, identifiers={identifiers}, "
        f"constants={constants}.\nPer class, of all within the limits: "
        + ", ".join(
            f"{name} {size}/{counts[name]}"
            for name, size in zip(chosen, sizes, strict=True)
        )
        + "."
    )
    return TreeDataset(
        # A store of its own, without the functions that were left out.
        forest=Forest.concat([Forest(), forest[pairs]]),
        y=np.repeat(np.arange(len(chosen), dtype=np.int64), sizes),
        classes=chosen,
        names=[qualified[tree] for tree in pairs],
        description=description,
    )


def _checked(name: str, value: SupportsIndex, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        msg = f"{name} must be an integer of at least {least}, got {value!r}"
        raise ValueError(msg)
    return number


def _checked_classes(
    classes: Iterable[str], files: dict[str, list[Path]], root: Path
) -> list[str]:
    if isinstance(classes, str):
        msg = f"classes must be an iterable of names, got the string {classes!r}"
        raise ValueError(msg)
    names = list(classes)
    for name in names:
        if name not in files:
            # The nearest names, however far: the list has to say what a name is like.
            near = difflib.get_close_matches(str(name), files, n=6, cutoff=0.0)
            msg = (
                f"unknown class {name!r}: no such module with Python source in {root}; "
                f"there are {len(files)}, among them {', '.join(sorted(near))}"
            )
            raise ValueError(msg)
    if not names:
        msg = "classes must name at least one module, got none"
        raise ValueError(msg)
    # Sorted, because a set would otherwise number the classes by hash seed.
    return sorted(set(names))


def _source_files(root: Path) -> dict[str, list[Path]]:
    """Find the source files of each module, in an order that no file system decides."""
    files: dict[str, list[Path]] = {}
    # From the names, not from the directory: `root` may hold site-packages with tens
    # of thousands of files, and build files whose names depend on the platform.
    for name in sorted(sys.stdlib_module_names - _SKIPPED_DIRECTORIES):
        single, package = root / f"{name}.py", root / name
        paths = [single] if single.is_file() else []
        paths += [
            path
            for path in package.rglob("*.py")
            if _SKIPPED_DIRECTORIES.isdisjoint(path.relative_to(package).parts[:-1])
        ]
        if paths:
            files[name] = sorted(paths, key=lambda path: path.relative_to(root).parts)
    if not files:
        msg = (
            "the source of the standard library is not installed: looked for the .py "
            f"files of its modules in {root} and found none (they may be in a zip "
            "archive, or stripped to .pyc files)"
        )
        raise RuntimeError(msg)
    return files


def _functions_of(path: Path, root: Path) -> Iterator[tuple[str, Any]]:
    parts = path.relative_to(root).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        with warnings.catch_warnings():
            # Old escapes such as "\d" warn, and that is not the caller's concern.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # templates and the like: not this Python's grammar
    for name, node in functions_in(tree):
        yield f"{module}.{name}", node


def _spread(trees: list[int], limit: int | None) -> list[int]:
    """Take at most `limit` elements, at even distances."""
    if limit is None or len(trees) <= limit:
        return trees
    return [trees[i * len(trees) // limit] for i in range(limit)]


def _returned(data: TreeDataset, return_X_y: bool) -> Any:
    """Return a copy that the caller may change, or trees and classes."""
    if return_X_y:
        return data.forest, data.y.copy()
    return dataclasses.replace(
        data, y=data.y.copy(), classes=[*data.classes], names=[*data.names]
    )


def _package(name: str) -> Path:
    """Find the files of a package, without importing it and all that it needs."""
    found = util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        error = missing("this dataset", f"the package {name}", "examples")
        raise error
    return Path(found.submodule_search_locations[0])


def _version(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name


def _dataset(
    forest: Forest, labels: Sequence[str], names: list[str], description: str
) -> TreeDataset:
    """Return trees grouped by class."""
    classes, y = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    order = np.argsort(y, kind="stable")
    return TreeDataset(
        forest=forest[order.tolist()],
        y=y[order].astype(np.int64),
        classes=classes.tolist(),
        names=[names[tree] for tree in order],
        description=description,
    )


def forms(
    *,
    simplify: bool = False,
    attributes: str | Iterable[str] = ("type",),
    text_nodes: str = "drop",
    return_X_y: bool = False,
) -> Any:
    """Read some 1,580 forms of web pages, labelled by purpose (Formasaurus).

    Parameters
    ----------
    simplify : bool, default False
        Count polls, captchas, navigation and display options as "other": 8 classes in
        place of 12.
    attributes : {"drop", "names", "keep"} or iterable of str, default ("type",)
        As in `readers.html`: by default the types of inputs, such as ``password``.
    text_nodes : {"drop", "blank", "tokens", "keep"}, default "drop"
        As in `readers.html`.
    return_X_y : bool, default False
        Return ``(forest, y)`` in place of a `TreeDataset`.

    Returns
    -------
    TreeDataset
        `names` are pages: forms of one page must not be split.

    Raises
    ------
    ImportError
        If formasaurus or lxml is not installed (extras `examples` and `web`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> data = tk.datasets.forms()  # doctest: +SKIP
    >>> data  # doctest: +SKIP
    <TreeDataset: 1585 trees, 90151 nodes, 12 classes (captcha, ...)>
    """
    data = _package("formasaurus") / "data"
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))
    types = json.loads((data / "config.json").read_text(encoding="utf-8"))["form_types"]
    full = {kind["short"]: kind["full"] for kind in types["types"]}
    merged = types["simplify_map"] if simplify else {}
    etree = needed("this dataset", "lxml.etree", "web")
    elements = _documents.Elements(attributes, text_nodes)
    labels, names = [], []
    for page, told in index.items():
        # The pages were stored as UTF-8, whatever they say.
        content = (data / page).read_bytes().decode(errors="replace")
        root, _ = _documents.html_root(etree, content)
        found = [] if root is None else list(root.iter("form"))
        if len(found) != len(told["forms"]):
            continue  # another version of the parser sees other forms
        for form, kind in zip(found, told["forms"], strict=True):
            if kind not in (types["NA_value"], types["skip_value"]):
                elements.walk(etree, form)
                labels.append(full[merged.get(kind, kind)])
                names.append(Path(page).name)
    about = (
        f"Forms of {len(set(names))} pages of {_version('formasaurus')}, by purpose."
    )
    forest = elements.table.forest()
    return _returned(_dataset(forest, labels, names, about), return_X_y)


def glycans(
    *,
    level: str = "Kingdom",
    min_per_class: int = 1,
    linkages: str = "label",
    return_X_y: bool = False,
) -> Any:
    """Read glycans by the organisms that they were found in (glycowork).

    Parameters
    ----------
    level : {"Species", "Genus", "Family", "Order", "Class", "Phylum", "Kingdom", \
"Domain"}, default "Kingdom"
        The rank that is the class. Glycans found in several classes are left out.
    min_per_class : int, default 1
        Leave out classes with fewer glycans.
    linkages : {"label", "node", "drop"}, default "label"
        As in `readers.glycans`.
    return_X_y : bool, default False
        Return ``(forest, y)`` in place of a `TreeDataset`.

    Returns
    -------
    TreeDataset
        Each glycan once; `names` are in IUPAC-condensed notation.

    Raises
    ------
    ImportError
        If glycowork is not installed (extra `examples`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> data = tk.datasets.glycans(level="Domain")  # doctest: +SKIP
    >>> data.classes  # doctest: +SKIP
    ['Archaea', 'Bacteria', 'Eukarya', 'Virus']
    """
    choice("level", level, *_LEVELS)
    min_per_class = _checked("min_per_class", min_per_class, 1)
    folder = _package("glycowork") / "glycan_data"
    files = sorted(folder.glob("*df_species.csv"))
    if not files:
        msg = f"expected a file *df_species.csv in {folder}, found none"
        raise RuntimeError(msg)
    owners: dict[str, set[str]] = {}
    with files[-1].open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row[level] and row[level].lower() not in (
                "undetermined",
                "unidentified",
            ):
                owner = _ALIASES.get(row[level], row[level])
                owners.setdefault(row["glycan"], set()).add(owner)
    sole = {glycan: next(iter(of)) for glycan, of in owners.items() if len(of) == 1}
    reading = bio.glycans(text=sole, linkages=linkages, errors="skip")
    counts = Counter(sole[name] for name in reading.names)
    kept = [
        tree
        for tree, name in enumerate(reading.names)
        if counts[sole[name]] >= min_per_class
    ]
    names = [reading.names[tree] for tree in kept]
    about = (
        f"Glycans of {_version('glycowork')} ({files[-1].name}) that were found in one "
        f"{level.lower()} only; {len(reading.skipped)} that are no tree were left out."
    )
    labels = [sole[name] for name in names]
    return _returned(_dataset(reading.forest[kept], labels, names, about), return_X_y)


def json_models(*, values: str = "type", return_X_y: bool = False) -> Any:
    """Read the models of web services, as JSON, by the protocol they speak (botocore).

    Parameters
    ----------
    values : {"keep", "type", "blank"}, default "type"
        As in `readers.json`.
    return_X_y : bool, default False
        Return ``(forest, y)`` in place of a `TreeDataset`.

    Returns
    -------
    TreeDataset
        The latest model of each service, operations and shapes; what names the protocol
        is left out.

    Raises
    ------
    ImportError
        If botocore is not installed (extra `examples`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> data = tk.datasets.json_models()  # doctest: +SKIP
    >>> data.classes  # doctest: +SKIP
    ['ec2', 'json', 'query', 'rest-json', 'rest-xml', 'smithy-rpc-v2-cbor']
    """
    choice("values", values, "keep", "type", "blank")
    folder = _package("botocore") / "data"
    table, labels, names = Table(), [], []
    for service in sorted(path for path in folder.iterdir() if path.is_dir()):
        model = max(service.glob("*/service-2.json*"), default=None)
        if model is None:
            continue
        text = model.read_bytes()
        plain = gzip.decompress(text) if model.suffix == ".gz" else text
        told = json.loads(plain, object_pairs_hook=_documents.Pairs)
        about = dict(dict(told)["metadata"])
        labels.append(about.get("protocol") or about["protocols"][0])
        names.append(service.name)
        table.begin()
        parts = [part for part in told if part[0] in ("operations", "shapes")]
        _documents.json_nodes(table, _documents.Pairs(parts), values)
    description = f"Service models of {_version('botocore')}, by protocol."
    return _returned(_dataset(table.forest(), labels, names, description), return_X_y)


def phylogenies(
    *,
    n_trees: int = 200,
    n_leaves: int = 30,
    lengths: Sequence[float] | None = (0.1, 0.5, 1.0, 2.0),
    random_state: int = 0,
    return_X_y: bool = False,
) -> Any:
    """Simulate phylogenies by two processes: birth and death, and coalescence (DendroPy).

    Parameters
    ----------
    n_trees : int, default 200
        Trees of each process.
    n_leaves : int, default 30
        Leaves of each tree.
    lengths : sequence of float, optional
        Classes of branch lengths, as in `readers.newick`, as multiples of the mean
        length of the tree: so they say something of shape, not of scale. None drops
        them.
    random_state : int, default 0
        Seed.
    return_X_y : bool, default False
        Return ``(forest, y)`` in place of a `TreeDataset`.

    Returns
    -------
    TreeDataset
        Leaves have no names; children are sorted.

    Raises
    ------
    ImportError
        If DendroPy is not installed (extra `examples`).

    Examples
    --------
    >>> import treekernel_rs as tk
    >>> data = tk.datasets.phylogenies(n_trees=5, n_leaves=8)  # doctest: +SKIP
    >>> data.classes  # doctest: +SKIP
    ['birth-death', 'coalescent']
    """
    n_trees = _checked("n_trees", n_trees, 1)
    n_leaves = _checked("n_leaves", n_leaves, 2)
    _package("dendropy")
    dendropy = needed("this dataset", "dendropy", "examples")
    simulate = needed("this dataset", "dendropy.simulate", "examples").treesim
    rng = random.Random(random_state)
    texts, labels = [], []
    for number in range(2 * n_trees):
        taxa = dendropy.TaxonNamespace([f"T{k}" for k in range(n_leaves)])
        if number < n_trees:
            labels.append("birth-death")
            tree = simulate.birth_death_tree(
                1.0, 0.5, num_extant_tips=n_leaves, taxon_namespace=taxa, rng=rng
            )
        else:
            labels.append("coalescent")
            tree = simulate.pure_kingman_tree(taxa, pop_size=1.0, rng=rng)
        edges = [e.length for e in tree.edges() if e.length is not None and e.tail_node]
        mean = math.fsum(edges) / len(edges)
        for edge in tree.edges():
            edge.length = edge.length and edge.length / mean
        texts.append(tree.as_string("newick", suppress_rooting=True))
    reading = bio.newick(text=texts, leaves="blank", inner="blank", lengths=lengths)
    names = [f"{label} {tree}" for tree, label in enumerate(labels)]
    about = f"Phylogenies of {n_leaves} leaves by {_version('dendropy')}, seed {random_state}."
    return _returned(
        _dataset(reading.forest.sorted(), labels, names, about), return_X_y
    )
