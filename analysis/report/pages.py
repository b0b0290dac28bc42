"""What the HTML pages of Ebbtide share: how templates are read, and the script that a page allows."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from ebbtide.journal.payload import value_in_words
from ebbtide.shown_text import escape_controls

_VALUE = re.compile(r'"value":([0-9]{13,19})\b')
"""The value of a record of producer 1 or higher."""


@cache
def page_templates(package: str) -> Environment:
    """Return the templates of a package, and those of the report, which it may include.

    Every value is escaped, also control characters: names come from scenario files and from Kafka.
    """
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, "analysis.report"))]),
        autoescape=True,
        finalize=_without_controls,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["number"] = "{:,}".format
    pages.filters["record"] = value_in_words
    pages.filters["json_line"] = _json_line
    return pages


def _json_line(value: object) -> str:
    """Return a struct as JSON for people: each value of a record in words."""
    line = msgspec.json.encode(value).decode()
    return _VALUE.sub(lambda found: f'"value":"{value_in_words(int(found[1]))}"', line)


def _without_controls(value: object) -> object:
    return escape_controls(value) if type(value) is str else value


def script_hash(script: str) -> str:
    """Return the hash by which a Content-Security-Policy allows this script and no other."""
    return b64encode(sha256(script.encode()).digest()).decode()
