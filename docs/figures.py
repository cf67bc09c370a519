"""Draw the pictures of the pages: `python docs/figures.py`, after `make install`.

The report page is photographed in Chromium (group browser); the matrix needs matplotlib.
"""

import json
import sys
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import numpy as np

import treekernel_rs as tk

X = [
    "(SBARQ (WHNP (WP who)) (SQ (VP (VBD wrote) (NP (NNP Emma)))))",
    "(SBARQ (WHNP (WP who)) (SQ (VP (VBD sang) (NP (NNP Aida)))))",
    "(SBARQ (WHADVP (WRB where)) (SQ (VBZ is) (NP (NNP Rome))))",
    "(SBARQ (WHADVP (WRB where)) (SQ (VBZ lies) (NP (NNP Oslo))))",
]
Y = ["person", "person", "place", "place"]


FUNCTION = """
def bill(prices):
    total = 0
    for price in prices:
        total += price
    return total
"""


def shapes() -> dict[str, tk.drawing.Drawing]:
    """Draw a function with one statement more, by what it shares with the original."""
    copy = FUNCTION.replace("    for", "    check(prices)\n    for")
    drawn = {}
    for shape in ("as_is", "chain"):
        original, changed = (
            tk.readers.python_ast(
                text=code, level="function", identifiers="blank", shape=shape
            ).forest[0]
            for code in (FUNCTION, copy)
        )

        def production(node: tk.nodes.Node) -> tuple[str, ...]:
            return node.label, *(child.label for child in node.children)

        there = {production(node) for node in original.walk()}
        shared = [float(production(node) in there) for node in changed.walk()]
        drawn[f"shape-{shape.replace('_', '-')}"] = tk.draw(changed, shared)
    return drawn


def figures() -> dict[str, tk.drawing.Drawing]:
    """Return the pictures by name."""
    svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4, normalize=True), C=10).fit(X, Y)
    question = "(SBARQ (WHNP (WP who)) (SQ (VBZ is) (NP (NNP Emma))))"
    large = "(NN dog)"
    for label in ("NP", "PP", "VP", "S", "TOP"):
        large = f"({label} {large} {large} {large})"
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from compare_versions import EXAMPLES, compared

    versions = {f"compare-{name}": compared(name).draw() for name in EXAMPLES}
    return {
        **versions,
        **shapes(),
        "tree": tk.draw(X[0]),
        "explained": tk.draw(question, svc.contributions(question, "person")),
        "folded": tk.draw(large, max_nodes=13),
    }


def gallery(folder: Path) -> None:
    """Draw the accuracies of the gallery as they were recorded."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples/gallery"))
    from _comparison import show

    recorded = Path(__file__).with_name("gallery.json").read_text(encoding="utf-8")
    for name, kept in json.loads(recorded).items():
        show(kept["results"], folder / f"gallery-{name}.png", **kept["shown"])


def matrix(path: Path) -> None:
    """Draw the kernel matrix of some functions of four packages."""
    data = tk.datasets.python_functions(n_classes=4, max_per_class=30)
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    axes = tk.drawing.draw_gram(kernel(data.forest), [data.classes[k] for k in data.y])
    axes.figure.savefig(path, dpi=80, bbox_inches="tight")


def page(path: Path) -> None:
    """Photograph the upper part of a report page."""
    from playwright.sync_api import sync_playwright

    data = tk.datasets.python_functions(n_classes=4, max_per_class=100, max_nodes=60)
    kernel = tk.SubsetTreeKernel(0.4, normalize=True)
    y = np.array(data.classes)[data.y]
    odd = np.arange(len(data.forest)) % 2 == 1
    train = data.forest[~odd], y[~odd]
    svc = tk.TreeSVC(kernel, C=10, multi_class="ovr").fit(*train)
    with TemporaryDirectory() as folder, sync_playwright() as started:
        report = Path(folder) / "report.html"
        tk.report(svc, data.forest[odd], y[odd], report, training=train)
        browser = started.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox"]
        )
        view = browser.new_page(viewport={"width": 1000, "height": 1680})
        view.goto(report.as_uri())
        view.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    for name, drawing in figures().items():
        drawing.save(Path(__file__).parent / "images" / f"{name}.svg")
    gallery(Path(__file__).parent / "images")
    matrix(Path(__file__).parent / "images/gram.png")
    page(Path(__file__).parent / "images/report.png")
