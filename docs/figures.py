"""Draw the pictures of the pages: `python docs/figures.py`, after `make install`."""

import json
import sys
from pathlib import Path

import treekernel_rs as tk

X = [
    "(SBARQ (WHNP (WP who)) (SQ (VP (VBD wrote) (NP (NNP Emma)))))",
    "(SBARQ (WHNP (WP who)) (SQ (VP (VBD sang) (NP (NNP Aida)))))",
    "(SBARQ (WHADVP (WRB where)) (SQ (VBZ is) (NP (NNP Rome))))",
    "(SBARQ (WHADVP (WRB where)) (SQ (VBZ lies) (NP (NNP Oslo))))",
]
Y = ["person", "person", "place", "place"]


def figures() -> dict[str, tk.Drawing]:
    """Return the pictures by name."""
    svc = tk.TreeSVC(tk.SubsetTreeKernel(0.4, normalize=True), C=10).fit(X, Y)
    question = "(SBARQ (WHNP (WP who)) (SQ (VBZ is) (NP (NNP Emma))))"
    wide = "(S " + " ".join(f"(NP (DT the) (NN n{k}))" for k in range(200)) + ")"
    return {
        "tree": tk.draw(X[0]),
        "explained": tk.draw(question, svc.contributions(question, "person")),
        "folded": tk.draw(wide, max_nodes=20),
    }


def gallery(folder: Path) -> None:
    """Draw the accuracies of the gallery as they were recorded."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples/gallery"))
    from _comparison import show

    recorded = Path(__file__).with_name("gallery.json").read_text(encoding="utf-8")
    for name, kept in json.loads(recorded).items():
        show(kept["results"], folder / f"gallery-{name}.png", **kept["shown"])


if __name__ == "__main__":
    for name, drawing in figures().items():
        drawing.save(Path(__file__).parent / "images" / f"{name}.svg")
    gallery(Path(__file__).parent / "images")
