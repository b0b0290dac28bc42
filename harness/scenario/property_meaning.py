"""Which of Kafka's properties no scenario may set, wherever it comes from: a file, a record, or a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import UsageError
from harness.properties_file import is_writable
from harness.runtime.properties import HARNESS_OWNED, leads_out
from harness.scenario.model import NODE_ROLES, ClusterSpec

_NAME = re.compile(r"[^\s=:#!\\]+")


def property_meaning(cluster: ClusterSpec) -> Iterator[UsageError]:
    """Properties that are no single property, that tie a node to its place, or that lead out of it.

    The scenario of a record is held to this too: whoever made the record may have written anything into it.
    """
    for role in NODE_ROLES:
        where = f"cluster.{role}_properties"
        properties = cluster.given_to(role)
        owned = sorted(HARNESS_OWNED & properties.keys())
        if owned:
            yield UsageError(
                "a property that the harness sets itself",
                where=where,
                got=", ".join(owned),
                allowed="any but " + ", ".join(sorted(HARNESS_OWNED)),
            )
        for name, value in properties.items():
            if not (_NAME.fullmatch(name) and name.isascii() and name.isprintable()):
                allowed = "ASCII without blanks, and without = : # ! \\"
                yield UsageError("not a property's name", where=where, got=repr(name), allowed=allowed)
            elif leads_out(name):
                yield UsageError(
                    "a property by which Kafka writes or runs files outside of the run's folder",
                    where=where,
                    got=name,
                    allowed="properties of what runs on the nodes' own volumes",
                )
            elif not is_writable(value):
                allowed = "one line, without control characters"
                yield UsageError("not a property's value", where=f"{where}.{name}", got=repr(value), allowed=allowed)
