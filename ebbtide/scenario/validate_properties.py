"""Kafka's properties that no scenario may set.

Some apply to all scenarios, some only to scenarios that start a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ebbtide.errors import UsageError
from ebbtide.properties_file import is_writable
from ebbtide.scenario.absent_words import absent_word
from ebbtide.scenario.model import NODE_ROLES
from ebbtide.scenario.owned_properties import HARNESS_OWNED, leads_out
from ebbtide.scenario.parts import TablePart

_NAME = re.compile(r"[^\s=:#!\\]+")


def validate_properties(cluster: TablePart) -> Iterator[UsageError]:
    """Report names of several properties, and properties that tie a node down.

    A node is tied to its network and volume by these properties. The scenario of a record must pass this too,
    even when it is judged: the record says what Kafka read of single properties only. Before a cluster starts,
    `validate_outward_properties` refuses more of them.
    """
    for role in NODE_ROLES:
        where = f"cluster.{role}_properties"
        properties = cluster.elements(f"{role}_properties", {})
        for name in sorted(HARNESS_OWNED & properties.keys()):
            what, sentence = "a property that the harness sets itself", absent_word(name, "properties")
            yield UsageError(
                what if sentence is None else f"{what}: {sentence}", where=where, got=name, allowed="no such line"
            )
        for name, value in properties.items():
            if not (_NAME.fullmatch(name) and name.isascii() and name.isprintable()):
                allowed = "ASCII without blanks, and without = : # ! \\"
                yield UsageError("not a property's name", where=where, got=repr(name), allowed=allowed)
            elif not is_writable(value):
                allowed = "one line, without control characters"
                yield UsageError("not a property's value", where=f"{where}.{name}", got=repr(value), allowed=allowed)


def validate_outward_properties(cluster: TablePart) -> Iterator[UsageError]:
    """Properties by which Kafka writes or runs files outside of the run's folder.

    Whatever starts Kafka refuses them, also from a record: whoever made it may have written anything into it. Judging
    a finished record starts nothing, and takes them.
    """
    for role in NODE_ROLES:
        for name in cluster.elements(f"{role}_properties"):
            if leads_out(name):
                yield UsageError(
                    "a property by which Kafka writes or runs files outside of the run's folder",
                    where=f"cluster.{role}_properties",
                    got=name,
                    allowed="properties of what runs on the nodes' own volumes",
                )
