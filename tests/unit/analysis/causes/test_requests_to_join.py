"""Whether a request to enter the ISR may be from before the disk loss of its broker."""

from __future__ import annotations

from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import disk, down, event, ns, rules

from analysis.causes.evidence import SLACK_NS, DiskLoss
from ebbtide.record.node_times import Span

JOIN = 2
"""The state by which broker 2 enters the ISR, at 5 s; broker 1 leads since 1 s."""
SLACK_S = SLACK_NS / 1e9
ONCE = {"broker_events": (event(1, 0.5, 2, "registered"),)}
NEVER_SEEN = {"broker_events": ()}


@pytest.mark.parametrize(
    ("fields", "lost_at_s", "is_sure"),
    [
        # It registered again behind the loss, so its next process asked.
        ({}, [], True),
        (ONCE, [4], True),
        ({**ONCE, "downs": ()}, [4], True),
        ({**ONCE, "downs": (), "log_whole": False}, [4], False),
        (NEVER_SEEN, [4], False),
        # Without a registration in between, a process that is down asked before.
        ({**NEVER_SEEN, "downs": (down(2, 4, 8),)}, [4], True),
        ({**ONCE, "downs": (down(2, 4, 8),), "log_whole": False}, [4], True),
        ({"broker_events": (event(1, 4, 2, "registered"),)}, [4], True),
        ({**ONCE, "disks": (disk(2, 5),)}, [], True),
        ({**ONCE, "disks": (disk(2, 0.4), disk(3, 4), disk(2, 4.5))}, [4.5], True),
        # Nobody knows whether the loss was before the registration or behind it.
        (
            {**ONCE, "downs": (), "disks": (DiskLoss(broker=2, within=Span(first_ns=ns(0.4), last_ns=ns(0.6))),)},
            [0.4],
            False,
        ),
    ],
)
def test_the_losses_behind_a_request_ended_the_process_that_made_it(
    fields: dict[str, Any], lost_at_s: list[float], *, is_sure: bool
) -> None:
    losses, sure = row.stale_join(**fields).losses_since_request(2, JOIN)
    assert ([one.within.first_ns / 1e9 for one in losses], sure) == (lost_at_s, is_sure)


@pytest.mark.parametrize(
    ("fields", "may_be_stale"),
    [
        ({}, True),
        ({"rules": (rules(kip_903=True),)}, False),
        ({"rules": (rules(kip_903=None),)}, True),
        # A request from before KIP-903 was in force has no broker epochs that could be compared.
        ({"rules": (rules(kip_903=False), rules(19, 4.7, kip_903=True))}, True),
        ({"rules": (rules(kip_903=False), rules(0, 1, kip_903=True))}, True),
        ({"rules": (rules(kip_903=False), rules(-1, 0.5, kip_903=True))}, False),
        ({"rules": (rules(kip_903=True), rules(19, 4.7, kip_903=False))}, True),
        ({"rules": (rules(kip_903=True), rules(20, 5, kip_903=False))}, False),
        ({"disks": ()}, False),
        ({"disks": (), "steps_known": False}, True),
        ({"disks": (disk(3, 4),)}, False),
        # The controller refuses a request of an earlier leader epoch.
        ({"disks": (disk(2, 0.7),)}, False),
        ({"disks": (disk(2, 1 - SLACK_S),)}, True),
        ({"disks": (disk(2, 5.3),)}, False),
        ({"disks": (disk(2, 5 + SLACK_S),)}, True),
    ],
)
def test_a_stale_request_is_from_before_a_disk_loss_of_this_leader_epoch(
    fields: dict[str, Any], *, may_be_stale: bool
) -> None:
    assert row.stale_join(**fields).may_be_stale(2, 0, JOIN) is may_be_stale
