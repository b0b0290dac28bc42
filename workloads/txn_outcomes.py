"""The table that says how a transaction ended, from what the producer asked and what it was told.

*Committed*: the coordinator said so. *Aborted*: it certainly never will be committed. *Unknown*: everything else.
Only the producer itself can ask for a commit, so a transaction whose commit was never asked for can only end
aborted; one whose commit was asked for and not answered may have ended either way.
"""

from __future__ import annotations

import msgspec

from ebbtide.record.clients import TxnOutcome


class TxnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One end of a transaction."""

    name: str
    outcome: TxnOutcome
    why: str


COMMITTED = TxnRow(
    name="COMMITTED", outcome="committed", why="Every record was acked and the coordinator confirmed the commit."
)
ABORTED = TxnRow(name="ABORTED", outcome="aborted", why="The coordinator confirmed the abort that was asked for.")
FENCED = TxnRow(
    name="FENCED",
    outcome="aborted",
    why="Before the commit was asked for, the start of a newer incarnation was confirmed, which aborts what is open.",
)
REFUSED = TxnRow(
    name="REFUSED",
    outcome="aborted",
    why="The commit was sent once, and the coordinator refused it as that of an older producer epoch.",
)
REPLACED = TxnRow(
    name="REPLACED",
    outcome="aborted",
    why="No commit was asked for, and the start of the next incarnation was confirmed, which aborts what is open.",
)
IN_DOUBT = TxnRow(
    name="IN_DOUBT", outcome="unknown", why="The commit was asked for and not confirmed: it may have been decided."
)
EPOCH_MOVED = TxnRow(
    name="EPOCH_MOVED",
    outcome="unknown",
    why="The client reports a commit, but its producer epoch moved meanwhile: it may have asked for nothing.",
)
UNRESOLVED = TxnRow(
    name="UNRESOLVED", outcome="unknown", why="The producer stopped, or was killed, before the transaction's end."
)

TXN_TABLE = (COMMITTED, ABORTED, FENCED, REFUSED, REPLACED, IN_DOUBT, EPOCH_MOVED, UNRESOLVED)
"""Every end; the order is the documentation's."""
