"""The table of how a transaction ended, from the producer's requests and answers.

*Committed*: the coordinator said so. *Aborted*: it certainly will never be committed. *Unknown*: everything else.
Only the producer itself can request a commit. A transaction whose commit was never requested can therefore only end
aborted; one whose commit was requested and not answered may have ended either way.
"""

from __future__ import annotations

import msgspec

from ebbtide.record.clients import TxnOutcome


class TxnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a transaction ends."""

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
"""Every row, in the order of the documentation."""
