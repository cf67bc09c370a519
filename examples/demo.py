"""The library at work: functions of Python's library, and the package they come from.

Three ways to learn it from syntax trees, side by side; then what was learnt: the
fragments that count most, and two functions coloured by what each node adds. Prints a
table, and writes it with the pictures to ./demo.html (another place: the first argument).
"""

import html
import pickle
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import treekernel_rs as tk

KERNEL = tk.SubsetTreeKernel(0.4, normalize=True)

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>treekernel_rs: the demo</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.2rem; margin-top: 2rem; }}
.box {{ overflow-x: auto; border: 1px solid #8b949e66; border-radius: 8px;
  padding: .5rem; }}
.box svg {{ display: block; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ padding: .25rem .6rem; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child, td.text, th.text {{ text-align: left; }}
td.text {{ white-space: normal; min-width: 12rem; }}
tr + tr td {{ border-top: 1px solid #8b949e44; }}
code {{ font-size: .85em; }}
</style>
</head>
<body>
<h1>Which package does a function come from?</h1>
<p>{about}</p>
<h2>Three ways to learn it</h2>
<div class="box"><table>
<tr><th>method</th><th>accuracy</th><th>training</th><th>prediction</th><th>model</th></tr>
{rows}
</table></div>
<p>Exact SST sees every fragment of the trees through the kernel; distributed trees are
vectors whose products approximate it; the perceptron sees one tree after the other.</p>
<h2>What the support vector machine learnt</h2>
<p>For each package the fragments of two productions and more that speak most for it, with
what one occurrence adds to the decision (before the division by the root of the tree's
kernel with itself).</p>
<div class="box"><table>
<tr><th>package</th><th>adds</th><th class="text">fragment</th></tr>
{fragments}
</table></div>
<h2>Two functions, explained</h2>
<p>Red nodes speak for the package that is predicted, blue ones against it. All
numbers together, with a constant, are the decision. Hovering over a node shows its
number.</p>
{pictures}
</body>
</html>
"""


class Bar:
    """Says on the terminal what is going on, with a bar where it is told how far."""

    def __init__(self, what: str) -> None:
        self.what, self.start = what, perf_counter()
        self.shown = sys.stderr.isatty()
        if self.shown:
            print(f"  {what} ...", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int) -> None:
        """Redraw; on a terminal only."""
        seconds = perf_counter() - self.start
        if self.shown and seconds > 1 and total:
            full = 30 * done // total
            bar = "#" * full + "." * (30 - full)
            text = f"\r  {self.what:<28}[{bar}] {done / total:4.0%}"
            print(text, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line empty."""
        if self.shown:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


def methods() -> dict[str, object]:
    """Name the three; all of them are estimators of scikit-learn."""
    return {
        "exact SST + SVM": tk.TreeSVC(KERNEL, C=10, multi_class="ovr"),
        "distributed trees + linear": make_pipeline(
            tk.DistributedTreeEncoder(KERNEL, n_components=8192, prune=True),
            RidgeClassifierCV(alphas=(0.1, 0.3, 1.0, 3.0)),
        ),
        "online perceptron": tk.TreePerceptron(KERNEL, n_iter=1, random_state=0),
    }


def fit_in_passes(
    model: tk.TreePerceptron, X: tk.Forest, y: np.ndarray, bar: Bar, n: int = 5
) -> None:
    """Let a perceptron go through the trees in parts, as they would come."""
    rng = np.random.default_rng(0)
    for number in range(n):
        order = rng.permutation(len(X))
        for start in range(0, len(X), 100):
            part = order[start : start + 100]
            model.partial_fit(X[part], y[part], classes=np.unique(y))
            bar(number * len(X) + start + len(part), n * len(X))


def main() -> None:
    """Learn, compare, explain."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "demo.html")
    print(f"Python {sys.version.split()[0]}: which package is a function from?")
    start = perf_counter()
    bar = Bar("reading the library")
    data = tk.datasets.python_functions(identifiers=True)
    bar.close()
    y = np.array(data.classes)[data.y]
    names = np.array(data.names)
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.25, stratify=y, random_state=0
    )
    X, X_test = data.forest[train], data.forest[test]
    about = (
        f"{len(train):,} functions to learn from, {len(test):,} to classify; "
        f"{data.forest.n_nodes.mean():.0f} nodes on average"
    )
    packages = f"{len(data.classes)} packages: {', '.join(data.classes)}"
    print(f"  read as syntax trees in {perf_counter() - start:.1f} s")
    print(f"  {about}\n  {packages}\n")
    heads = ("method", "accuracy", "training", "prediction", "model")
    print("  {:<28}{:>9}{:>11}{:>13}{:>11}".format(*heads))
    rows, fitted = [], {}
    for name, model in methods().items():
        bar = Bar(name)
        start = perf_counter()
        if isinstance(model, tk.TreePerceptron):
            fit_in_passes(model, X, y[train], bar)
        else:
            model.fit(X, y[train])
        training = perf_counter() - start
        bar.close()
        start = perf_counter()
        right = model.predict(X_test) == y[test]
        prediction = perf_counter() - start
        row = (
            name,
            f"{right.mean():.1%}",
            f"{training:.2f} s",
            f"{prediction * 1e3:.0f} ms",
            f"{len(pickle.dumps(model)) / 1e6:.1f} MB",
        )
        print("  {:<28}{:>9}{:>11}{:>13}{:>11}".format(*row), flush=True)
        rows.append(row)
        fitted[name] = model, right

    svc, right = fitted["exact SST + SVM"]
    start = perf_counter()
    found = svc.top_fragments(3, min_size=2)
    seconds = perf_counter() - start
    print(f"\n  What speaks for a package, found in {seconds * 1e3:.0f} ms:")
    for fragment in found:
        print(f"    {fragment.output:<16}{fragment.weight:+7.3f}  {fragment.tree}")

    pictures = []
    sizes = X_test.n_nodes
    for is_right in (True, False):
        fits = np.flatnonzero((right == is_right) & (sizes >= 15) & (sizes <= 45))
        if not len(fits):
            continue
        i = int(fits[0])
        tree, said = X_test[i], svc.predict(X_test[i : i + 1])[0]
        title = f"{names[test[i]]}: of {y[test[i]]}, predicted {said}"
        picture = tk.draw(tree, weights=svc.contributions(tree))
        pictures.append(
            f'<h3>{html.escape(title)}</h3>\n<div class="box">{picture}</div>'
        )
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    fragments = (
        f"<td>{html.escape(f.output)}</td><td>{f.weight:+.3f}</td>"
        f'<td class="text"><code>{html.escape(str(f.tree))}</code></td>'
        for f in found
    )
    page = PAGE.format(
        about=html.escape(f"{about}. {packages}."),
        rows="\n".join(f"<tr>{row}</tr>" for row in cells),
        fragments="\n".join(f"<tr>{row}</tr>" for row in fragments),
        pictures="\n".join(pictures),
    )
    path.write_text(page, encoding="utf-8")
    print(f"\n  Table, fragments and two explained functions: {path.resolve()}")


if __name__ == "__main__":
    main()
