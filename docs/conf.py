"""The site: the pages of this folder, and a reference made of the docstrings."""

import re
from pathlib import Path
from typing import Any

import treekernel_rs

SOURCE = "https://github.com/treekernel-rs/treekernel_rs/blob/main/"

project = "treekernel_rs"
author = "The treekernel_rs authors"
version = release = treekernel_rs.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["sphinx.ext.autosummary"]  # the list of all names, in api.rst
extensions += ["sphinx_copybutton"]  # examples are copied without their prompts
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_theme = "furo"
html_title = f"treekernel_rs {release}"
html_show_copyright = False
html_favicon = "images/icon.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
autosummary_generate = False
exclude_patterns = ["_build"]
default_role = "code"
# Words of a docstring's types, such as "shape", are names of several attributes.
suppress_warnings = ["ref.python"]
myst_heading_anchors = 3
# Pages are read on GitHub too, with its names for languages.
highlight_language = "text"
napoleon_use_ivar = True
napoleon_use_rtype = False
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80


def _skip(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool:
    """Leave out what scikit-learn and Python add to classes."""
    of = getattr(value, "fget", None) or value
    module = getattr(of, "__module__", None) or getattr(
        getattr(of, "__objclass__", None), "__module__", "treekernel_rs"
    )
    own = str(module).startswith("treekernel_rs")
    return skip or not own or re.fullmatch("set_.*_request", name) is not None


def _lead_out(app: Any, page: str, text: list[str]) -> None:
    """Let links to files that are no pages lead to the repository."""
    text[0] = text[0].replace("](../benches/RESULTS.md", "](benchmarks.rst")
    text[0] = re.sub(r"\]\(\.\./([^)]*)\)", rf"]({SOURCE}\1)", text[0])


def reference(page: str, text: str) -> str:
    """Write out the lists of names that pages of the reference leave to be looked up."""
    def names(match: re.Match[str]) -> str:
        described = (Path(__file__).parent / f"{match[1]}.rst").read_text("utf-8")
        listed = re.findall(r"^\.\. auto\w+:: (\S+)$", described, re.MULTILINE)
        rows = [f"   {name.removeprefix('treekernel_rs.')}" for name in listed]
        head = (
            ".. currentmodule:: treekernel_rs\n\n.. autosummary::\n   :nosignatures:\n"
        )
        return "\n".join([head, *rows])

    return re.sub(r"^\.\. names of (\S+)$", names, text, flags=re.MULTILINE)


def _look_up(app: Any, page: str, text: list[str]) -> None:
    """Let ``reference`` write out pages before they are read."""
    if page.startswith("api"):
        text[0] = reference(page, text[0])


def _short(
    app: Any,
    what: str,
    name: str,
    of: Any,
    options: Any,
    given: str | None,
    returns: Any,
) -> tuple[str, Any] | None:
    """Write ``numpy.float32`` in a signature, and not ``<class 'numpy.float32'>``."""
    return given and (re.sub(r"<class '([\w.]+)'>", r"\1", given), returns)


def setup(app: Any) -> None:
    """Register all of them."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _short)
    app.connect("source-read", _lead_out)
    app.connect("source-read", _look_up)
