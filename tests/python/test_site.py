"""The site in a browser: it fits the screen, and search finds what newcomers look for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[2] / "docs/_build"
SIZES = [(1280, 900), (390, 844)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SITE / "index.html").exists(), reason="the site is not built: make site"
    ),
]


@pytest.mark.parametrize(("width", "height"), SIZES, ids=["desktop", "phone"])
def test_no_page_is_wider_than_the_screen(
    browser: Any, width: int, height: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": height})
    wide = {}
    for path in [*sorted(SITE.glob("*.html")), *sorted(SITE.glob("api/*.html"))]:
        page.goto(path.as_uri())
        over = page.evaluate("document.documentElement.scrollWidth") - width
        if over > 0:
            wide[path.name] = over
    page.close()
    assert wide == {}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("grid decay pipeline", "GUIDE.html"),
        ("explain prediction", "GUIDE.html"),
        ("classify million trees", "GUIDE.html"),
        ("spaCy forest", "GUIDE.html"),
        ("nearest trees", "GUIDE.html#nearest-trees"),
        ("save load model process", "GUIDE.html"),
        ("TreeSVC", "api/estimators.html"),
        ("report page", "GALLERY.html"),
        ("TEDS table recognition", "METRICS.html"),
        ("PubTabNet", "METRICS.html"),
        ("Robinson-Foulds", "METRICS.html"),
        ("TSED", "METRICS.html"),
    ],
)
def test_search_finds_what_newcomers_look_for(
    browser: Any, words: str, found: str
) -> None:
    page = browser.new_page()
    page.goto((SITE / "search.html").as_uri() + "?q=" + words.replace(" ", "+"))
    page.wait_for_selector("#search-results li a")
    links = page.locator("#search-results li a").evaluate_all(
        "all => all.map(link => link.getAttribute('href'))"
    )
    page.close()
    assert any(link.startswith(found) for link in links[:5]), links
