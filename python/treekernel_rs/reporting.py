"""The report page: a classifier's results on some trees, as one HTML file.

The page is `report.html` with `report.js` in it. All text that comes from trees and labels
is escaped, and a content security policy lets the browser run this one script only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treekernel_rs._arguments import check_integer
from treekernel_rs._core import Forest, __version__
from treekernel_rs._extras import SKLEARN, needs
from treekernel_rs._occurrences import fragment_kind, occurrences
from treekernel_rs._public import listing
from treekernel_rs._replacing import replacing
from treekernel_rs._wording import output_text, plural, printable, signed
from treekernel_rs.dag import DagModel
from treekernel_rs.drawing import draw
from treekernel_rs.tree_kernels import TreeKernel

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from treekernel_rs.dag import Fragment
    from treekernel_rs.estimators._inputs import TreesX

__all__ = ["report"]
__dir__ = listing(__all__)

# These limit the size of the page: nodes in all pictures (some 300 bytes each), characters
# of a tree and of a fragment as text, classes (which have a row and a column each), rows of
# the table of fragments. The others limit the time: nodes searched for fragments, fewer where
# a fragment may leave out nodes, and the size of fragments.
_MOST_DRAWN = 60_000
_LONGEST_TEXT = 4_000
_LONGEST_FRAGMENT = 1_000
_MOST_CLASSES = 50
_MOST_FRAGMENTS = 1_000
_MOST_SEARCHED = 1_000_000
_MOST_SEARCHED_FOR_PARTS = 200_000
_LARGEST_FRAGMENT = 100


def report(
    estimator: Any,
    X: TreesX,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    training: tuple[TreesX, ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    title: str = "Report on a tree classifier",
    n_fragments: int = 10,
    min_size: int = 1,
    n_trees: int = 100,
    max_nodes: int = 3_000,
    n_neighbors: int = 3,
) -> None:
    """Write a page that shows and explains what a classifier does on some trees.

    One HTML file, which needs no network: scores and the confusion matrix, the fragments
    that speak for and against each class, single trees coloured by what each node adds,
    the nearest trees, settings and versions. Needs scikit-learn. The page is written beside
    `path` and takes its place when all of it is there.

    The size of the page is bounded: of more than 50 classes, those with the most trees are
    shown, and of more than 50 pairs of classes their sums by class; the table of fragments
    has at most 1,000 rows.

    Parameters
    ----------
    estimator : fitted classifier
        `TreeSVC`, `TreeLogisticRegression` and `TreePerceptron` are explained in full. For other
        classifiers of trees (pipelines, `TreeKNeighborsClassifier`) the page has the scores
        and trees without colours. For a fitted search, the best estimator is used.
    X : Forest or sequence of str
        Trees to classify: a test set.
    y : array of shape (len(X),)
        Their labels.
    path : str or path
        Where to write the page.
    training : (X, y), optional
        Trees with labels in which the nearest trees are searched, and fragments counted. By
        default, the other trees of X.
    names : sequence of str, optional
        The names of the trees of X; by default the trees themselves, as text.
    title : str
        The title of the page.
    n_fragments : int, default 10
        How many fragments to show for and against each class (or pair of classes); fewer
        if these would be more than 1,000.
    min_size : int, default 1
        The fewest productions of a fragment.
    n_trees : int, default 100
        How many single trees to show: mistakes first, for at most half of the places; then
        trees that show a fragment; then others. Fewer are shown if they are large.
    max_nodes : int, default 3000
        The most nodes to draw of a tree, as in `draw`.
    n_neighbors : int, default 3
        How many of the nearest trees to show; 0 for none.

    Raises
    ------
    ImportError
        If scikit-learn is not installed.
    OSError
        If the page cannot be written. What was there before stays.
    TypeError
        If the estimator does not classify, or a name is no str.
    ValueError
        If the lengths of X, y and names differ, X is empty, or a number is out of range.

    Examples
    --------
    >>> import pathlib, tempfile, treekernel_rs as tk
    >>> X = ["(S (A a) (B b))", "(S (A a) (C c))", "(S (B b) (D d))", "(S (B b))"]
    >>> y = ["x", "x", "y", "y"]
    >>> svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4), C=10).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "report.html"
    ...     tk.report(svc, X, y, path)
    ...     "4 trees, 4 classified correctly" in path.read_text(encoding="utf-8")
    True
    """
    with needs("report", SKLEARN, "sklearn"):
        from sklearn.utils.multiclass import unique_labels

        from treekernel_rs.estimators._classifier import ExplainedClassifier
        from treekernel_rs.estimators._inputs import trees_to_fit, trees_with_labels

    estimator = getattr(estimator, "best_estimator_", estimator)
    if not (hasattr(estimator, "predict") and hasattr(estimator, "classes_")):
        msg = f"estimator must be a fitted classifier, got {type(estimator).__name__}"
        raise TypeError(msg)
    limits = {"n_fragments": n_fragments, "n_trees": n_trees, "max_nodes": max_nodes}
    limits |= {"n_neighbors": n_neighbors, "min_size": min_size}
    for name, value in limits.items():
        if check_integer(name, value) < (
            least := int(name in ("n_trees", "max_nodes"))
        ):
            msg = f"{name} must be at least {least}, got {value}"
            raise ValueError(msg)
    forest, truth = trees_with_labels(X, y)
    names = None if names is None else _checked_names(names, len(forest))
    said = np.asarray(estimator.predict(forest))
    labels = unique_labels(truth, said)
    shown_labels = _most_common(labels, truth, said)

    # 1. The fragments, and where they stand.
    explained = estimator if isinstance(estimator, ExplainedClassifier) else None
    fragments, note = _fragments(explained, shown_labels, n_fragments, min_size)
    kind = fragment_kind(getattr(estimator, "kernel_", None))
    limit = _MOST_SEARCHED_FOR_PARTS if kind in ("part", "loose") else _MOST_SEARCHED
    roots = [fragment.tree for _, _, fragment in fragments]

    def searched(trees: Forest) -> Forest:
        return trees[: max(1, int((np.cumsum(trees.n_nodes) <= limit).sum()))]

    found = occurrences(roots, searched(forest), kind)
    counts = [(found, truth[: len(searched(forest))], "trees")]
    candidates = None
    if training is not None:
        candidates = trees_with_labels(trees_to_fit(training[0]), training[1])
        learned, labels_of = searched(candidates[0]), candidates[1]
        counts.append(
            (
                occurrences(roots, learned, kind),
                labels_of[: len(learned)],
                "training trees",
            )
        )

    # 2. The trees that are shown, with their neighbours.
    shown = _chosen(
        truth != said, found, np.minimum(forest.n_nodes, max_nodes), n_trees
    )
    near = _neighbours(estimator, forest, truth, shown, candidates, n_neighbors)
    margins = _margins(estimator, forest[shown])
    place = {tree: at for at, tree in enumerate(shown)}
    place_of = _places(shown_labels)
    trees = []
    for at, tree in enumerate(shown):
        of, predicted = truth[tree], said[tree]
        text = str(forest[tree])[:_LONGEST_TEXT]
        trees.append(
            {
                "name": printable(names[tree] if names is not None else text[:120]),
                "text": printable(text),
                "truth": output_text(of),
                "said": output_text(predicted),
                "truth_code": place_of([of])[0],
                "said_code": place_of([predicted])[0],
                "right": bool(of == predicted),
                "size": forest[tree].n_nodes,
                "margin": None if margins is None else float(f"{margins[at]:.3g}"),
                "pictures": _pictures(
                    explained, forest[tree], predicted, of, max_nodes
                ),
                "near": near[tree],
            }
        )
    data = {
        "trees": trees,
        "fragments": [
            {place[tree]: nodes for tree, nodes in of.items() if tree in place}
            for of in found
        ],
    }

    # 3. The page.
    n_right = int((truth == said).sum())
    low, high = _interval(n_right, len(forest))
    known, sizes = np.unique(truth, return_counts=True)
    most = sizes.argmax()
    about = (
        f"{type(estimator).__name__}: {plural(len(forest), 'tree')}, {n_right:,} classified "
        f"correctly, {len(forest) - n_right:,} not: accuracy {n_right / len(forest):.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}). The most common class, "
        f"{printable(output_text(known[most]))}, has {sizes[most] / len(forest):.1%} of the trees."
    )
    where = (
        f"{len(shown):,} of {plural(len(forest), 'tree')} are shown, mistakes first."
    )
    folder = Path(__file__).parent
    script = (folder / "report.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    parts = {
        "title": escape(title),
        "about": escape(about),
        "scores": _scores(truth, said, labels, shown_labels),
        "confusion": _confusion(truth, said, labels, shown_labels),
        "fragments": _fragment_table(fragments, counts, note),
        "shown": escape(where),
        "settings": _settings(estimator, explained),
        # No "<" in it, so nothing in it can end the element that holds it.
        "data": json.dumps(data).replace("<", "\\u003c"),
        "script": script,
        "hash": base64.b64encode(digest).decode(),
    }
    page = (folder / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<!--(\w+)-->", lambda marker: parts[marker[1]], page)
    with replacing(path) as file:
        file.write(page.encode())


def _checked_names(names: Iterable[str], n: int) -> list[str]:
    if isinstance(names, str | bytes) or not hasattr(names, "__len__"):
        msg = f"names must be a list of str, one for each tree, got {names!r}"
        raise TypeError(msg)
    listed = list(names)
    if len(listed) != n:
        msg = f"names must have one entry for each of {n} trees, got {len(listed)}"
        raise ValueError(msg)
    for place, name in enumerate(listed):
        if not isinstance(name, str):
            msg = f"names[{place}] must be a str, got {name!r}"
            raise TypeError(msg)
    return listed


def _most_common(
    labels: NDArray[Any], truth: NDArray[Any], said: NDArray[Any]
) -> NDArray[Any]:
    """Return the classes to show, in their order: those that have the most trees."""
    n_trees = np.bincount(np.searchsorted(labels, truth), minlength=len(labels))
    n_said = np.bincount(np.searchsorted(labels, said), minlength=len(labels))
    most = np.lexsort((-n_said, -n_trees))[:_MOST_CLASSES]
    shown: NDArray[Any] = labels[np.sort(most)]
    return shown


def _places(shown: NDArray[Any]) -> Callable[[ArrayLike], list[int]]:
    """Return what gives the places of labels among those shown; others come after these."""
    places = {label: place for place, label in enumerate(shown.tolist())}
    return lambda labels: [
        places.get(label, len(places)) for label in np.asarray(labels).tolist()
    ]


def _interval(n_right: int, n: int) -> tuple[float, float]:
    """Return Wilson's interval of 95 % for a share."""
    z = 1.959964
    middle = n_right + z * z / 2
    half = z * float(np.sqrt(n_right * (n - n_right) / n + z * z / 4))
    return (middle - half) / (n + z * z), (middle + half) / (n + z * z)


def _margins(estimator: Any, forest: Forest) -> NDArray[np.float64] | None:
    """Return by how much each tree's class is ahead of the next, if there are scores."""
    for method in ("decision_function", "predict_proba"):
        if hasattr(estimator, method):
            scores: NDArray[np.float64] = np.asarray(getattr(estimator, method)(forest))
            if scores.ndim == 1:
                return np.abs(scores)
            if scores.shape[1] != len(estimator.classes_):
                return None  # scores of pairs of classes
            best = np.sort(scores, axis=1)
            return best[:, -1] - best[:, -2]
    return None


def _fragments(
    estimator: Any, shown: NDArray[Any], k: int, min_size: int
) -> tuple[list[tuple[Any, str, Fragment]], str]:
    """Return class or pair, "for" or "against", and fragment; and what is to be said."""
    if estimator is None:
        return [], "This classifier is not a sum over fragments, as TreeSVC is."
    found, note = [], ""
    # What bounds the time of the search for them. Subtrees are found by their ids.
    max_size = (
        None if fragment_kind(estimator.kernel_) == "whole" else _LARGEST_FRAGMENT
    )
    try:
        model, outputs = estimator._model(), estimator._outputs()
        if len(outputs) > _MOST_CLASSES and isinstance(outputs[0], tuple):
            outputs = [c for c in estimator.classes_ if c in shown]
            model = estimator._by_class(outputs)
            note = "Weights are sums over the pairs of a class with the others. "
        # Of two classes, only the second has an output.
        numbered = [
            (number, output)
            for number, output in enumerate(outputs)
            if len(outputs) <= _MOST_CLASSES or output in shown
        ]
        k = min(k, _MOST_FRAGMENTS // max(1, 2 * len(numbered)))
        for number, output in numbered:
            for by in ("largest", "smallest"):
                side, whose = ("for" if by == "largest" else "against"), output
                if isinstance(output, tuple):
                    side, whose = "for", output if by == "largest" else output[::-1]
                found += [
                    (whose, side, fragment)
                    for fragment in model.top_fragments(
                        k, by=by, output=number, min_size=min_size, max_size=max_size
                    )
                ]
    except (ValueError, RuntimeError) as error:
        return [], f"No fragments: {error}."
    return found, note if found else "The model has no fragments of this size."


def _chosen(
    wrong: NDArray[np.bool_],
    found: list[dict[int, list[int]]],
    sizes: NDArray[np.int64],
    n_trees: int,
) -> list[int]:
    """Choose the trees to show: mistakes, a tree for each fragment, others."""
    mistakes = np.flatnonzero(wrong).tolist()
    half = max(1, n_trees // 2)
    examples = chain.from_iterable(list(of)[:2] for of in found)
    others = np.flatnonzero(~wrong).tolist()
    order = dict.fromkeys([*mistakes[:half], *examples, *others, *mistakes[half:]])
    shown = list(order)[:n_trees]
    within = np.cumsum(sizes[shown]) <= _MOST_DRAWN
    return shown[: max(1, int(within.sum()))]


def _pictures(
    estimator: Any, tree: Any, said: Any, truth: Any, max_nodes: int
) -> list[tuple[str, str]]:
    """Draw a tree by what speaks for the predicted class, and for the right one."""
    if estimator is not None:
        try:
            pictures = []
            for label in dict.fromkeys((said, truth)):
                if label in estimator.classes_:
                    shares = estimator.contributions(tree, label)
                    name = f"for {output_text(label)}" + (
                        ", predicted" if label == said else ""
                    )
                    parts = shares.sum(), estimator._intercept_of(label)
                    score = " ".join(f"{part:+.4g}" for part in parts)
                    drawn = draw(tree, shares, max_nodes=max_nodes)
                    pictures.append((f"{name}: {score} = {sum(parts):+.4g}", drawn.svg))
            return pictures
        except ValueError:  # a perceptron that votes is no sum over nodes
            pass
    return [("the tree", draw(tree, max_nodes=max_nodes).svg)]


def _neighbours(
    estimator: Any,
    forest: Forest,
    truth: NDArray[Any],
    shown: list[int],
    training: tuple[Forest, NDArray[Any]] | None,
    k: int,
) -> dict[int, list[tuple[str, str, str]]]:
    """Return the label, kernel and text of the nearest trees, for each tree shown."""
    candidates, labels = (forest, truth) if training is None else training
    near: dict[int, list[tuple[str, str, str]]] = {tree: [] for tree in shown}
    # Its own kernel, that of a step of a pipeline, or a parameter.
    parts = [estimator, *estimator.get_params().values()]
    held = [getattr(part, "kernel_", part) for part in parts]
    kernels = [kernel for kernel in held if isinstance(kernel, TreeKernel)]
    wanted = min(k + (training is None), len(candidates))
    if not kernels or not k:
        return near
    kernel = kernels[0].replace(normalize=True)
    indices, values = kernel.top_k(forest[shown], candidates, k=wanted)
    for tree, row, similar in zip(shown, indices, values, strict=True):
        for other, value in zip(row.tolist(), similar.tolist(), strict=True):
            is_other = training is not None or other != tree
            if is_other and value > 0 and len(near[tree]) < k:
                text = printable(str(candidates[other]))
                near[tree].append(
                    (output_text(labels[other]), f"{value:.3f}", text[:400])
                )
    return near


def _table(
    heads: Iterable[str], rows: Iterable[str], *, caption: str, name: str = ""
) -> str:
    """Make a table of cells that are HTML already."""
    head = "".join(heads)
    return (
        f'<table class="{name}" aria-label="{escape(caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _cells(values: Iterable[object], tag: str = "td", n_text: int = 1) -> str:
    """Make cells, the first of them of text and the others of numbers."""
    return "".join(
        f"<{tag}{' class=text' if at < n_text else ''}>{escape(str(value))}</{tag}>"
        for at, value in enumerate(values)
    )


def _scores(
    truth: NDArray[Any], said: NDArray[Any], labels: NDArray[Any], shown: NDArray[Any]
) -> str:
    from sklearn.metrics import precision_recall_fscore_support

    per_class = precision_recall_fscore_support(
        truth, said, labels=labels, zero_division=0
    )
    rows = [
        (printable(output_text(label)), *(f"{value:.3f}" for value in three), f"{n:,}")
        for label, *three, n in zip(labels, *per_class, strict=True)
        if label in shown
    ]
    if len(labels) > len(shown):
        is_other = ~np.isin(labels, shown)
        others = [f"{np.mean(values[is_other]):.3f}" for values in per_class[:3]]
        n_trees = int(per_class[3][is_other].sum())
        rows.append((f"mean of {_others(labels, shown)}", *others, f"{n_trees:,}"))
    means = [f"{np.mean(values):.3f}" for values in per_class[:3]]
    rows.append(("mean of classes", *means, f"{len(truth):,}"))
    return _table(
        [_cells(("class", "precision", "recall", "F1", "trees"), "th")],
        [f"<tr>{_cells(row)}</tr>" for row in rows],
        caption="Scores by class",
    )


def _others(labels: NDArray[Any], shown: NDArray[Any]) -> str:
    """Name the classes that are not shown one by one."""
    return f"{len(labels) - len(shown):,} other classes"


def _confusion(
    truth: NDArray[Any], said: NDArray[Any], labels: NDArray[Any], shown: NDArray[Any]
) -> str:
    names = [printable(output_text(label)) for label in shown]
    if len(labels) > len(shown):
        names.append(_others(labels, shown))
    place_of = _places(shown)
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (place_of(truth), place_of(said)), 1)
    rows = []
    for i, row in enumerate(counts):
        cells = [_cells([names[i]], "th")]
        for j, count in enumerate(row):
            share = 100 * count / max(1, row.sum())
            colour = "67,147,195" if i == j else "214,96,77"
            what = escape(f"{count} of class {names[i]}, predicted {names[j]}")
            cells.append(
                f'<td><button data-cell="{i},{j}" aria-pressed="false" '
                f'aria-label="{what}" title="{what}" '
                f'style="background:rgba({colour},{share / 100:.2f})">{count:,}</button></td>'
                if count
                else "<td>0</td>"
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(
        [_cells(("class \\ predicted", *names), "th")], rows, caption="Confusion matrix"
    )


def _fragment_table(
    fragments: list[tuple[Any, str, Fragment]],
    counts: list[tuple[list[dict[int, list[int]]], NDArray[Any], str]],
    note: str,
) -> str:
    """Make the table; `counts` are occurrences and labels of the trees, and their name."""
    if not fragments:
        return f"<p>{escape(note)}</p>"
    rows = []
    names: dict[str, None] = {}
    for at, (whose, side, fragment) in enumerate(fragments):
        text = printable(str(fragment.tree)[:_LONGEST_FRAGMENT])
        label, name = whose, output_text(whose)
        if isinstance(whose, tuple):
            label, name = (
                whose[0],
                f"{output_text(whose[0])}, not {output_text(whose[1])}",
            )
        name = escape(printable(name))
        names[name] = None
        rows.append(
            f'<tr data-fragment="{at}" data-class="{name}" data-side="{side}">'
            f'<td class=text>{side} {name}</td><td class="text long"><button class=plain>'
            f"<code>{escape(text)}</code></button></td><td>{signed(fragment.weight)}</td>"
        )
        for found, truth, _ in counts:
            of = list(found[at])
            share = f"{np.mean(truth[of] == label):.0%}" if of else ""
            rows[-1] += f"<td>{len(of):,}</td><td>{share}</td>"
        rows[-1] += "</tr>"
    options = "".join(f"<option>{name}</option>" for name in names)
    heads = ["class", "fragment", "weight"]
    for _, _, name in counts:
        heads += [name, "of the class"]
    table = _table(
        [_cells(heads, "th", 2)],
        rows,
        caption="Fragments",
        name="wide",
    )
    return (
        f"<p>{escape(note)}The weight is what one occurrence of a fragment adds to the "
        "decision. The next columns say how many of "
        + " and of ".join(f"{len(truth):,} {name}" for _, truth, name in counts)
        + " contain the fragment, and how many of these are of the class named first. Click "
        "a fragment to see its trees below, with its nodes marked.</p>"
        '<div class="bar"><label>Search <input type="search" id="search" '
        'placeholder="part of a fragment"></label>'
        '<select id="side" aria-label="For or against"><option value="">for and against'
        "</option><option>for</option><option>against</option></select>"
        f'<select id="class" aria-label="Class"><option value="">all classes</option>'
        f'{options}</select><span id="found" role="status"></span></div>'
        f'<div class="box tall">{table}</div>'
    )


def _settings(estimator: Any, explained: Any) -> str:
    import sklearn

    rows = [(name, repr(value)) for name, value in estimator.get_params().items()]
    if isinstance(model := getattr(explained, "model_", None), DagModel):
        rows.append(("support trees", f"{model.n_trees:,}"))
        rows.append(("distinct subtrees", f"{model.n_nodes:,}"))
    rows += [
        ("treekernel_rs", __version__),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("scikit-learn", sklearn.__version__),
        ("system", platform.platform()),
    ]
    return _table(
        [_cells(("setting", "value"), "th", 2)],
        [f"<tr>{_cells(row, n_text=2)}</tr>" for row in rows],
        caption="Settings and versions",
        name="wide",
    )
