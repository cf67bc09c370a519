"""Tell which system made a web page from its elements alone.

Data: the pages that come with Formasaurus; the system is the one of eight whose name or
addresses stand in the page's text, and in no other's. Pages of one site stay together.
Forest: elements, without attributes and text, so that nothing in it names a system; runs of
equal elements collapsed (a list of posts is one post).
Kernels: ST, SST and PT, with and without repeats.
Against: tags, and tags with those around them, with sublinear tf-idf.

    pip install '.[sklearn,viz,web,examples]'
    python examples/gallery/pages.py               # a minute; writes pages.png
    python examples/gallery/pages.py --most 100 --out /tmp/pages.png
"""

from __future__ import annotations

import json
import re
from importlib import util
from pathlib import Path

import numpy as np
from _comparison import accuracy, bags, main

import treekernel_rs as tk

KERNELS = {
    "ST": [tk.SubtreeKernel(d, normalize=True) for d in (0.4, 0.8)],
    "SST": [tk.SubsetTreeKernel(d, normalize=True) for d in (0.1, 0.2, 0.4)],
    "PT": [
        tk.PartialTreeKernel(d, m, normalize=True)
        for d in (0.2, 0.4)
        for m in (0.1, 0.2, 0.4)
    ],
}
# What a page of each system has in its addresses, scripts or notes.
MARKS = {
    "ASP.NET": "__VIEWSTATE",
    "Drupal": r"drupal\.settings|/sites/(default|all)/",
    "Joomla": "joomla|option=com_|/media/system/js/",
    "Magento": r"/skin/frontend/|mage\.cookies|/js/mage/",
    "phpBB": "phpbb",
    "PrestaShop": "prestashop",
    "vBulletin": "vbulletin",
    "WordPress": "/wp-(content|includes)/",
}


def pages() -> tuple[list[bytes], list[str], list[str]]:
    """Return pages, the system of each, and its site."""
    found = util.find_spec("formasaurus")
    if found is None or not found.submodule_search_locations:
        msg = "this example needs formasaurus: pip install '.[examples]'"
        raise ImportError(msg)
    data = Path(found.submodule_search_locations[0], "data")
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))
    kept, systems, sites = [], [], []
    for name, told in index.items():
        page = (data / name).read_bytes()
        text = page.decode(errors="replace")
        marks = [s for s, mark in MARKS.items() if re.search(mark, text, re.IGNORECASE)]
        if len(marks) == 1:
            kept.append(page)
            systems += marks
            address = re.sub(r"^(https?:)?(//)?(www\.)?", "", told["url"])
            sites.append(address.partition("/")[0])
    return kept, systems, sites


def run(most: int | None = None) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each way."""
    found, systems, sites = pages()
    kept = np.random.default_rng(0).permutation(len(found))[:most]
    y, groups = np.array(systems)[kept], np.array(sites)[kept]
    forest = tk.readers.html(text=[found[page] for page in kept]).forest
    once = forest.collapse_repeats()
    results = {}
    for name, kernels in KERNELS.items():
        results[name] = accuracy([k(forest) for k in kernels], y, groups)
        grams = [k(once) for k in kernels]
        results[f"{name}, collapsed"] = accuracy(grams, y, groups)
    results["tags, tf-idf"] = accuracy([bags(forest, "labels")], y, groups)
    both = (bags(forest, "labels") + bags(forest, "edges")) / 2
    results["tags and edges, tf-idf"] = accuracy([both], y, groups)
    with_both = [gram + both for gram in grams]
    results["tags and edges + PT, collapsed"] = accuracy(with_both, y, groups)
    return results


if __name__ == "__main__":
    what = {"without": ("tf-idf",), "what": "eight systems", "stem": "pages"}
    main(__doc__, run, "--most", None, **what)
