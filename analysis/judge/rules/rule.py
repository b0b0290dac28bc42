"""What every rule declares, a kind of anomaly or a clause."""

from __future__ import annotations

import re
from itertools import takewhile

import msgspec

_OF_A_TABLE = re.compile(r"\s*[a-z]+: ")


class DeclaredRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule.

    - `example`: a small run that breaks the rule, which a test judges; without one, no rule of the project is loaded.
      First it says in words what happened. Then it has rows by table, separated by `;`, with the columns that matter:
      `sends: 0=1; offset=1 value=2 at=30` are values 1 and 2 at the offsets 0 and 1, the second sent after 30 s. In
      polls, `final` is of the final read. Brokers 1, 2 and 3 are registered at 0 and unfenced at 0.5 s, and a state of
      a partition is the one before it with what the row says. There may also be `steps`, `setting`, `witness`,
      `quorum`, `clock` and `logs`; `usual_rows.py` and `worked_examples.py` in `tests/support` have all defaults. Last
      comes what the rule finds: `gives:` has columns of the first item, or of the first row of evidence of a violation,
      and `unknown:` those of a clause that is unknown then.
    """

    example: str = ""

    @property
    def module(self) -> str:
        """The module that declares it: that of its function."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the module, with hyphens."""
        return self.module.rpartition(".")[2].replace("_", "-")

    @property
    def story(self) -> str:
        """What happens in the example, for people."""
        lines = takewhile(lambda line: not _OF_A_TABLE.match(line), self.example.strip().splitlines())
        return " ".join(" ".join(lines).split())
