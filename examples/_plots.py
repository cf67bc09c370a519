"""The look of all figures that compare with a paper: one colour for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: A method has its colour on every picture (Okabe & Ito: apart for the colour-blind).
#: A name that is not here has that of the longest name here which it begins with.
COLOURS = {
    "TK": "#000000",
    "ST": "#999999",
    "SST": "#000000",
    "ST+bow": "#CCBB44",
    "SST+bow": "#AA3377",
    "Linear": "#56B4E9",
    "Poly": "#0072B2",
    "quaternion": "#0072B2",
    "sign": "#56B4E9",
    "phasor": "#CC79A7",
    "convolution": "#D55E00",
    "gamma": "#009E73",
    "quaternion, prune": "#AA3377",
    "limit": "#999999",
    "dot product": "#D55E00",
    "exact": "#000000",
    "quadratic": "#CC79A7",
    "fast": "#009E73",
    "this library": "#0072B2",
    "K_max": "#CC79A7",
    "K, paper": "#009E73",
    "K": "#0072B2",
    "sum": "#CC79A7",
    "voted DAG": "#0072B2",
    "Tk + Poly3": "#D55E00",
    "Tk": "#000000",
    "Poly3": "#0072B2",
    "SVM Tk": "#009E73",
}
MARKS = "osD^vPX*"


def colour(name: str) -> str:
    """Return the colour of a method."""
    composition = name.removeprefix("DTK ")
    fitting = [method for method in COLOURS if composition.startswith(method)]
    return COLOURS[max(fitting, key=len)] if fitting else "#882255"


def figure(panels: Sequence[dict[str, Any]], columns: int = 2) -> Any:
    """Return a figure of panels in rows; None without matplotlib.

    A panel has title, xlabel, ylabel; `curves`, x and y by name, with the half of an interval
    as a third list where there is one; `published`, the same from the paper, drawn dashed; `log`,
    the axes that are logarithmic: "", "y" or "xy".
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import (
            FixedLocator,
            FuncFormatter,
            LogLocator,
            NullFormatter,
        )
    except ImportError:
        print("\nnothing drawn: matplotlib is not installed")
        return None
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    drawn = Figure(figsize=(4.5 * columns, 4.2 * rows), layout="constrained")
    axes = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, panel in zip(axes, panels, strict=False):
        used: dict[str, int] = {}
        for name, (x, y, *errors) in panel["curves"].items():
            shade = colour(name)
            nth = used[shade] = used.get(shade, -1) + 1
            style = {"marker": MARKS[nth], "markersize": 4, "lw": 1.3, "color": shade}
            style |= {"ls": ("-", "--", ":", "-.")[nth % 4], "label": name}
            ax.errorbar(x, y, *errors, capsize=2, **style)
        for name, (x, y) in panel.get("published", {}).items():
            style = {"marker": "o", "markersize": 7, "markerfacecolor": "none"}
            style |= {"ls": (0, (4, 3)), "lw": 1, "color": colour(name)}
            ax.plot(x, y, label=f"{name}, published", **style)
        ax.set(title=panel["title"], xlabel=panel["xlabel"], ylabel=panel["ylabel"])
        for which in panel.get("log", ""):
            getattr(ax, f"set_{which}scale")("log")
            axis = getattr(ax, f"{which}axis")
            low, high = getattr(ax, f"get_{which}lim")()
            # A line of long numbers has room for few.
            room = 20 if which == "x" and high > 20_000 else 100
            marks = (1.0, 2.0, 5.0) if high < room * low else (1.0,)
            values = {value for x, *_ in panel["curves"].values() for value in x}
            if which == "x" and len(values) <= 6 and not panel.get("published"):
                axis.set_major_locator(FixedLocator(sorted(values)))
            else:
                axis.set_major_locator(LogLocator(subs=marks))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axis.set_minor_formatter(NullFormatter())
        ax.grid(alpha=0.3)
        # Below the panel a legend hides nothing.
        ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    return drawn


def save(panels: Sequence[dict[str, Any]], path: Path, columns: int = 2) -> None:
    """Draw panels into a file."""
    drawn = figure(panels, columns)
    if drawn is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, dpi=110)
