"""Compare two versions of an HTML page, a JSON document or Python source as trees.

    python examples/compare_versions.py old.html new.html
    python examples/compare_versions.py old.json new.json --out changes.html
    python examples/compare_versions.py old.py new.py --out changes.png
    python examples/compare_versions.py                # three examples

Prints what changed: nodes that were inserted, deleted, renamed (another text, value or
name) and subtrees that moved, then the new version as an outline. ``--out`` writes a page
or a picture with both trees side by side. HTML needs lxml, PNG needs typst.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import treekernel_rs as tk

PAGE = (
    """<html><head><title>Tea house</title></head><body>
<nav><a href="/">Home</a><a href="/menu">Menu</a><a href="/visit">Visit</a></nav>
<main>
<h1>Our teas</h1>
<p>All leaves are picked by hand.</p>
<section id="green"><h2>Green</h2>
<ul><li>Sencha</li><li>Matcha</li><li>Gunpowder</li></ul></section>
<section id="black"><h2>Black</h2>
<ul><li>Assam</li><li>Ceylon</li><li>Keemun</li></ul></section>
<section id="news"><h2>News</h2><p>Closed on Monday.</p></section>
</main>
<footer><p>12 Harbour Street</p><p>Open from 9 to 18</p></footer>
</body></html>""",
    """<html><head><title>Tea house</title></head><body>
<nav><a href="/">Home</a><a href="/menu">Menu</a><a href="/visit">Visit</a></nav>
<main>
<section id="news"><h2>News</h2><p>Closed on Monday.</p></section>
<h1>Our teas</h1>
<p>All leaves are picked by hand.</p>
<section id="green"><h2>Green</h2>
<ul><li>Sencha</li><li>Matcha</li><li>Gunpowder</li><li>Genmaicha</li></ul></section>
<section id="black"><h2>Black</h2>
<ul><li>Assam</li><li>Keemun</li></ul></section>
</main>
<footer><p>12 Harbour Street</p><p>Open from 9 to 20</p></footer>
</body></html>""",
)

MODEL = (
    """{"service": "orders", "version": 3,
 "operations": {
  "CreateOrder": {"method": "POST", "path": "/orders",
   "input": {"customer": "string", "items": "list", "note": "string"},
   "errors": ["Invalid", "Throttled"]},
  "GetOrder": {"method": "GET", "path": "/orders/{id}",
   "input": {"id": "string"}, "errors": ["NotFound"]},
  "CancelOrder": {"method": "POST", "path": "/orders/{id}/cancel",
   "input": {"id": "string", "reason": "string"}, "errors": ["NotFound", "Shipped"]}},
 "limits": {"rate": 100, "burst": 200}}""",
    """{"service": "orders", "version": 4,
 "operations": {
  "CreateOrder": {"method": "POST", "path": "/orders",
   "input": {"customer": "string", "items": "list", "note": "string",
    "coupon": "string"},
   "errors": ["Invalid", "Throttled"]},
  "GetOrder": {"method": "GET", "path": "/orders/{id}",
   "input": {"id": "string"}, "errors": ["NotFound"]},
  "CancelOrder": {"method": "DELETE", "path": "/orders/{id}",
   "input": {"id": "string"}, "errors": ["NotFound", "Shipped"]},
  "ListOrders": {"method": "GET", "path": "/orders", "input": {"page": "number"},
   "errors": ["Throttled"]}},
 "limits": {"rate": 100, "burst": 200}}""",
)

FUNCTION = (
    """
def total(orders):
    log.info("orders: %d", len(orders))
    result = 0
    for order in orders:
        price = order.price * order.count
        result += price
    return result
""",
    """
def total(orders, tax=0.2):
    result = 0
    for order in orders:
        price = order.price * order.count
        if order.is_paid:
            result += price
    log.info("orders: %d", len(orders))
    return result * (1 + tax)
""",
)

#: Renaming a node costs nearly as much as deleting and inserting one. At 1, the default,
#: unrelated nodes of code become each other, as that is cheaper.
MEASURE = tk.EditDistance(rename=1.9)

EXAMPLES = {"page": PAGE, "model": MODEL, "function": FUNCTION}


def read(text: str, kind: str) -> tk.readers.Reading:
    """Read a text of some kind as a tree, with all that it says."""
    if kind in (".html", ".htm"):
        return tk.readers.html(
            text=text,
            attributes=["id", "class", "href"],
            text_nodes="keep",
            node_spans=True,
        )
    if kind == ".json":
        return tk.readers.json(text=text)
    if kind == ".py":
        return tk.readers.python_ast(
            text=text, literals="keep", docstrings=True, node_spans=True
        )
    msg = f"expected a file that ends in .html, .json or .py, got {kind!r}"
    raise ValueError(msg)


def compared(name: str) -> tk.comparing.Comparison:
    """Compare the two versions of an example."""
    kind = {"page": ".html", "model": ".json", "function": ".py"}[name]
    old, new = (read(text, kind) for text in EXAMPLES[name])
    return tk.compare(old, new, MEASURE)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files", nargs="*", type=Path, help="the old version, the new one"
    )
    parser.add_argument(
        "--out", type=Path, help="page or picture: .html, .svg, .png, .pdf"
    )
    args = parser.parse_args()
    if len(args.files) not in (0, 2):
        parser.error("expected two files, or none for the examples")
    if args.files:
        old, new = (read(path.read_text("utf-8"), path.suffix) for path in args.files)
        comparisons = {args.files[1].name: tk.compare(old, new, MEASURE)}
    else:
        comparisons = {name: compared(name) for name in EXAMPLES}
    for name, comparison in comparisons.items():
        print(f"{name}: {comparison!r}\n\n{comparison}\n")
        if args.out is not None:
            out = args.out
            if not args.files:
                out = out.with_stem(f"{out.stem}-{name}")
            comparison.save(out)


if __name__ == "__main__":
    sys.exit(main())
