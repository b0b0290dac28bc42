"""Reads what the judge's rules declare: names that predictions may use, and which clauses a verdict needs.

`python -m tools.pages.rules` makes `rules.json` from the rules in `analysis.judge.rules`, which need Spark and the
model. So no rule may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

import msgspec

NO_COMMITTED_LOSS: Final = "no-committed-loss-unless-allowed"
NO_HW_REGRESSION: Final = "no-hw-regression-unless-allowed"
COMMITS_KEPT: Final = "no-acked-commit-lost-unless-allowed"
TRANSITIONS: Final = "every-transition-is-one-the-protocol-allows"
API_AGREES: Final = "api-agrees-with-log"
UNCLEAN_LEAVES: Final = "unclean-broker-leaves-isr-and-elr"


class ClauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A clause; the fields are as in `analysis.judge.rules.clause.Clause`."""

    name: str
    kip: str
    text: str
    unknown_when: str
    needed: Literal["always", "if-hw-predicted", "never"]
    allowed: str


class RulesTable(msgspec.Struct, frozen=True, kw_only=True):
    """The content of rules.json."""

    clauses: tuple[ClauseRow, ...]


RULES_FILE = files("ebbtide.rules") / "rules.json"
CLAUSES: Mapping[str, ClauseRow] = {
    one.name: one for one in msgspec.json.decode(RULES_FILE.read_bytes(), type=RulesTable).clauses
}
"""Every clause of a verdict by its name, in the order of the verdict."""
