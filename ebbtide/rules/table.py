"""Reads what the judge's rules declare: names that predictions may use, and which clauses a verdict needs.

`python -m tools.pages.rules` makes `rules.json` from the rules in `analysis.judge.rules`, which need Spark and the
model. So no rule may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final, Literal

import msgspec

from ebbtide.coverage_fact import Fact

NO_COMMITTED_LOSS: Final = "no-committed-loss-unless-allowed"
NO_HW_REGRESSION: Final = "no-hw-regression-unless-allowed"
COMMITS_KEPT: Final = "no-acked-commit-lost-unless-allowed"
TRANSITIONS: Final = "every-transition-is-one-the-protocol-allows"
API_AGREES: Final = "api-agrees-with-log"
UNCLEAN_LEAVES: Final = "unclean-broker-leaves-isr-and-elr"

LOST: Final = "lost"
VANISHED: Final = "vanished"
DUPLICATE: Final = "duplicate"
ABORTED_READ: Final = "aborted-read"
HW_REGRESSION: Final = "hw-regression"
COMMIT_LOST: Final = "commit-lost"
COMMIT_BACK: Final = "commit-back"
COPIED_TWICE: Final = "copied-twice"
"""The clauses, and then the kinds of anomalies, that code speaks of by name."""


class ClauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A clause; the fields are as in `analysis.judge.rules.clause.Clause`. `example`: what its example says."""

    name: str
    kip: str = ""
    text: str = ""
    example: str = ""
    unknown_when: str = ""
    needed: Literal["always", "if-hw-predicted", "never"] = "always"
    allowed: str = ""


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of anomaly; the fields are as in `analysis.judge.rules.anomaly.Anomaly`. `example` is as of a clause."""

    name: str
    means: str = ""
    example: str = ""
    one: str = ""
    many: str = ""
    has_own_prediction: bool = False
    allowed_by: str | None = None
    depends_on_chance: bool = False
    is_loss: bool = False
    found_as: str = ""
    expected_by: str = ""
    headline: tuple[str, str] | None = None
    despite: str = ""

    def count(self, number: int) -> str:
        """Return a number of items in words: `1 lost record`, `2 lost records`."""
        return f"{number:,} {self.one if number == 1 else self.many}"

    def in_findings(self, *, committed: bool) -> str:
        """Return what a finding calls items that were committed, or that were not."""
        return self.found_as.format(_word_of(committed)) or self.name

    def key_of(self, *, committed: bool) -> str:
        """Return the key of a prediction that expects such items; empty if none does."""
        return self.expected_by.format(_word_of(committed))


def _word_of(committed: bool) -> str:
    return "committed" if committed else "uncommitted"


class RulesTable(msgspec.Struct, frozen=True, kw_only=True):
    """The content of rules.json.

    Every field but the name has a default, so that the rules can be imported to make an older table anew.
    """

    clauses: tuple[ClauseRow, ...] = ()
    anomalies: tuple[KindRow, ...] = ()
    facts: tuple[Fact, ...] = ()


RULES_FILE = files("ebbtide.rules") / "rules.json"
_TABLE = msgspec.json.decode(RULES_FILE.read_bytes(), type=RulesTable)

CLAUSES: Mapping[str, ClauseRow] = {one.name: one for one in _TABLE.clauses}
"""Every clause of a verdict by its name, in the order of the verdict."""

ANOMALIES: Mapping[str, KindRow] = {one.name: one for one in _TABLE.anomalies}
"""Every kind of anomaly by its name."""

FACTS: Mapping[str, Fact] = {one.name: one for one in _TABLE.facts}
"""Every coverage fact by its name."""
