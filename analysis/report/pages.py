"""What the HTML pages of Ebbtide share: how templates are read, the style, and the script that a page allows."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from ebbtide.journal.payload import value_in_words
from ebbtide.named_files import write_named_file
from ebbtide.shown_text import escape_controls, plural

_VALUE = re.compile(r'"value":([0-9]{13,19})\b')
"""The value of a record of producer 1 or higher."""
_D3 = (
    "selection",
    "dispatch",
    "color",
    "interpolate",
    "timer",
    "ease",
    "transition",
    "drag",
    "zoom",
    "array",
)
"""The modules of d3 that zooming needs, each after those that it needs."""
_FITS_PX = (300, 600, 900)
"""Widths of the picture from which on a text is shown without JavaScript."""


def render_page(package: str, page: str, **values: object) -> str:
    """Return the page that a template of a package makes of some values."""
    return page_templates(package).get_template(f"{page}.html.j2").render(values)


def write_page(path: Path, page: str) -> None:
    """Write a page to a file that the user named. Raises `UsageError` if that fails."""
    write_named_file(path, page.encode(), "page")


@cache
def page_templates(package: str) -> Environment:
    """Return the templates of a package, and those of the report, which it may include.

    Every value is escaped, also control characters: names come from scenario files and from Kafka.
    """
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, "analysis.report"))]),
        autoescape=True,
        finalize=lambda value: escape_controls(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["number"] = "{:,}".format
    pages.filters["record"] = value_in_words
    pages.filters["json_line"] = _json_line
    pages.globals |= {one.__name__: one for one in (page_style, page_script, script_hash, fit_class, plural)}
    return pages


def _json_line(value: object) -> str:
    """Return a struct as JSON for people: each value of a record in words."""
    line = msgspec.json.encode(value).decode()
    return _VALUE.sub(lambda found: f'"value":"{value_in_words(int(found[1]))}"', line)


def script_hash(script: str) -> str:
    """Return the hash by which a Content-Security-Policy allows this script and no other."""
    return b64encode(sha256(script.encode()).digest()).decode()


@cache
def page_script() -> str:
    """Return the script of the page: the modules of d3, then that of the report."""
    folder = files("analysis.report") / "scripts"
    parts = [(folder / "d3" / f"d3-{name}.min.js").read_text() for name in _D3]
    return "\n".join([*parts, (folder / "report.js").read_text()])


@cache
def page_style() -> str:
    """Return the style sheet of the page."""
    folder = files("analysis.report") / "templates"
    return "".join((folder / name).read_text() for name in ("report.css", "picture.css"))


def fit_class(fit_px: int) -> str:
    """Return the class of a text that needs a picture as wide as `fit_px`."""
    if not fit_px:
        return "f0"
    return f"f{next((width for width in _FITS_PX if fit_px <= width), 9999)}"
