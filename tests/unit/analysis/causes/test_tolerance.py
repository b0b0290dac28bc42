"""KIP-966's tolerance goes by the min ISR that held when the record was committed."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import SENT_S, ask, rules

from analysis.causes.evidence import SLACK_NS

SLACK_S = SLACK_NS / 1e9
SINCE_S, BY_S = SENT_S - SLACK_S, SENT_S + 0.1 + SLACK_S
"""It was committed between these times: two clocks may differ by the slack."""


def min_isr(*levels: tuple[float, int | None]) -> tuple[Any, ...]:
    """Return rules with the ELR and these values of min ISR, each from a time on."""
    return tuple(rules(at, at_s, elr=True, min_isr=level) for at, (at_s, level) in enumerate(levels))


@pytest.mark.parametrize(
    ("levels", "asked", "cause"),
    [
        # Two disks took it.
        (min_isr((0, 2)), {}, "last-known-leader"),
        (min_isr((0, 3)), {}, "unexplained"),
        (min_isr((0, 2), (BY_S + 0.1, 3)), {}, "last-known-leader"),
        (min_isr((0, 2), (BY_S, 3)), {}, None),
        (min_isr((0, 2), (SENT_S, 3)), {}, None),
        (min_isr((0, 3), (SINCE_S + 0.1, 2)), {}, None),
        (min_isr((0, 3), (SINCE_S, 2)), {}, "last-known-leader"),
        (min_isr((0, None), (SINCE_S, 2)), {}, "last-known-leader"),
        (min_isr((0, None), (SENT_S, 2)), {}, None),
        # What stood in an older log may have been committed earlier.
        (min_isr((0, 3), (SINCE_S, 2)), {"may_be_older": True, "sent_ns": row.ALL.at_ns}, None),
        # The ack of acks=1 shows no commit, but a read does.
        (min_isr((0, 2), (BY_S + 0.1, 3)), {"acks_all": False, "read_s": SENT_S + 0.1}, "last-known-leader"),
        (min_isr((0, 2), (BY_S + 0.1, 3)), {"acks_all": False, "read_s": BY_S + 0.1}, None),
        (min_isr((0, 2), (BY_S + 0.1, 3)), {"done_s": BY_S + 0.1, "read_s": SENT_S + 0.1}, "last-known-leader"),
        # It was read before it was sent, which leaves no time in which it was committed.
        (min_isr((0, 2), (SINCE_S, 3)), {"acks_all": False, "read_s": SINCE_S - 1}, None),
        # The first level that is known holds from the start on.
        (min_isr((SENT_S + 1, 2)), {}, "last-known-leader"),
    ],
)
def test_the_min_isr_of_the_commit_decides(levels: tuple[Any, ...], asked: dict[str, Any], cause: str | None) -> None:
    assert ask(row.last_known(rules=levels), **asked).cause == cause
