"""Renders a report as one HTML page that needs no network, and no JavaScript to be complete."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from analysis.report.model import ReportModel
from ebbtide.record.files import write_atomically

REPORT = "report.html"
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


def render(report: ReportModel) -> str:
    """Return the page.

    Every value is escaped: names come from scenario files and from Kafka. The page allows no
    script but its own and loads nothing, so a text that escaped the escaping would do nothing.
    """
    script = page_script()
    return _template().render(
        report=report,
        style=page_style(),
        script=script,
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        fit_class=fit_class,
    )


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


@cache
def _template() -> Template:
    """Compile the template once, since that takes longer than rendering a page."""
    environment = Environment(
        loader=PackageLoader("analysis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def write_report(record: Path, report: ReportModel) -> Path:
    """Replace the record's report.html, and return its path."""
    path = record / REPORT
    write_atomically(path, render(report).encode())
    return path
