"""Kafka's properties in a scenario: what their file would say otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import UsageError
from harness.scenario.model import NODE_ROLES, Scenario

_NAME = re.compile(r"[^\s=:#!\\]+")


def property_meaning(scenario: Scenario) -> Iterator[UsageError]:
    """Names and values that a .properties file cannot hold as they are: a line break begins another property."""
    for role in NODE_ROLES:
        where = f"cluster.{role}_properties"
        for name, value in scenario.cluster.given_to(role).items():
            if not (_NAME.fullmatch(name) and _is_plain(name)):
                allowed = "ASCII without blanks, and without = : # ! \\"
                yield UsageError("not a property's name", where=where, got=repr(name), allowed=allowed)
            elif not _is_plain(value):
                allowed = "one line of printable ASCII"
                yield UsageError("not a property's value", where=f"{where}.{name}", got=repr(value), allowed=allowed)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
