"""What the controllers of a cluster can bear: how many may be down, and what one does that returns empty.

The rules are those of Raft, for the voters that the snapshot names. The model has no controllers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.shown_text import plural
from ebbtide.snapshot.model import ClusterSnapshot


def majority_of(voters: Sequence[int]) -> int:
    """Return how many voters elect a controller and commit metadata."""
    return len(voters) // 2 + 1


def controllers_note(snapshot: ClusterSnapshot) -> str:
    """Return how many controllers may be down, and be empty."""
    voters = snapshot.controllers
    if not voters:
        return "nobody named the controllers, so nothing is said about them"
    combined = set(voters) & {one.id for one in snapshot.brokers}
    each = "each also a broker" if len(voters) > 1 else "also a broker"
    kind = f", {each}" if combined == set(voters) else f", {len(combined)} also brokers" if combined else ""
    need = majority_of(voters)
    spare = len(voters) - need
    down = f"{spare} may be down" if spare else "none may be down"
    empty = "one may return empty while the others are up to date; " if spare else ""
    lost = (
        f"{need} that return empty may elect each other, and all topics are gone"
        if need > 1
        else ("if it returns empty, all topics are gone")
    )
    return f"{plural(len(voters), 'controller')}{kind}: {down}; {empty}{lost}"
