"""Rows of the table of permissions, what the tolerance allows, and what a replica may hold after each rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import causes_rows as row
import pytest
from causes_by_hand import SENT_S, ask, rules
from checkout import ROOT

from analysis.causes.evidence import NEVER, SLACK_NS, MeasuredEnds
from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    HAS_IT,
    JOINED_WITHOUT_IT,
    NEVER_HAD_IT,
    STATES,
    TRUNCATED_IT,
    UNRECORDED_LOSS,
    after_commit,
    after_disk,
    at_measured_end,
)
from analysis.causes.table import NEEDS, TABLE, Condition, Kind, PermissionRow, Permits, permits

NOTHING_MET: Mapping[Condition, bool | None] = dict.fromkeys(
    (condition for row in TABLE for condition in row.when), False
)


def kind_of(row: PermissionRow) -> Kind:
    return "clean" if row.kind == "any" else row.kind


def reasons_of(row: PermissionRow) -> list[int]:
    return [reason for reason in STATES if reason & row.reasons]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.cause)
def test_a_row_whose_conditions_are_met_names_its_cause_for_each_of_its_reasons(row: PermissionRow) -> None:
    facts = {**NOTHING_MET, **dict.fromkeys(row.when, True)}
    for reason in reasons_of(row):
        assert permits(kind_of(row), reason, facts) == Permits(causes=frozenset({row.cause}))


@pytest.mark.parametrize("row", [row for row in TABLE if row.when], ids=lambda row: row.cause)
def test_a_row_whose_condition_is_not_known_says_what_would_decide(row: PermissionRow) -> None:
    facts = {**NOTHING_MET, **dict.fromkeys(row.when, None)}
    found = permits(kind_of(row), reasons_of(row)[0], facts)
    assert not found.causes
    assert found.needs == {NEEDS[condition] for condition in row.when}


@pytest.mark.parametrize("kind", ["clean", "unclean", "last-known-leader"])
@pytest.mark.parametrize("reason", [reason for reason in STATES if reason not in (HAS_IT, UNRECORDED_LOSS)])
def test_where_no_condition_is_met_nothing_is_allowed(kind: Kind, reason: int) -> None:
    assert not permits(kind, reason, NOTHING_MET)


def test_what_contradicts_a_measurement_is_never_allowed_for_a_committed_record() -> None:
    everything = {**dict.fromkeys(NOTHING_MET, True), "never committed": False}
    assert not permits("clean", CONTRADICTED, everything)


def test_every_disk_counts_only_where_it_is_sure() -> None:
    facts = {**NOTHING_MET, "every replica's disk took it": None, "the only ISR member": True, "no ELR": True}
    assert permits("clean", DISK_TOOK_IT, facts).causes == {"last-replica-standing"}


STATES_ON_THE_PAGE: Mapping[str, int] = {
    "never had it": NEVER_HAD_IT,
    "disk took it": DISK_TOOK_IT,
    "truncated it": TRUNCATED_IT,
    "joined without it": JOINED_WITHOUT_IT,
    "unrecorded loss": UNRECORDED_LOSS,
    "contradicted": CONTRADICTED,
}
"""Every state without the record, by its name on the page."""


def reasons_on_the_page(text: str) -> int:
    if not text.startswith("any "):
        return sum(STATES_ON_THE_PAGE[name] for name in text.split(", "))
    excepted = STATES_ON_THE_PAGE[text.removeprefix("any but ")] if "but" in text else 0
    return sum(STATES_ON_THE_PAGE.values()) - excepted


def test_the_page_on_causes_has_this_table_and_an_example_of_each_cause() -> None:
    page = (ROOT / "docs" / "causes.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in page.splitlines() if line.startswith("|")
    ]
    begins = rows.index(["cause", "election", "conditions", "the leader's state"]) + 2
    shown = [
        PermissionRow(cause, kind, () if when == "none" else tuple(when.split(", ")), reasons_on_the_page(reasons))  # type: ignore[arg-type]
        for cause, kind, when, reasons in rows[begins : begins + len(TABLE)]
    ]
    assert shown == list(TABLE)
    examples = {row[0].partition(" (")[0] for row in rows[rows.index(["cause", "what happened"]) + 2 :]}
    assert examples == {row.cause for row in TABLE}


# KIP-966's tolerance goes by the min ISR that held when the record was committed.


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


# What one replica may hold of one record, after each rule of the intervals.


@pytest.mark.parametrize("found", [NEVER_HAD_IT, DISK_TOOK_IT, DISK_TOOK_IT | HAS_IT, CONTRADICTED])
def test_a_log_that_was_longer_had_the_only_record_that_can_be_at_the_offset(found: int) -> None:
    assert at_measured_end(found, 5, MeasuredEnds(before=12, after=6)) == HAS_IT
    assert at_measured_end(found, 12, MeasuredEnds(before=12, after=6)) == found
    assert at_measured_end(found, 5, MeasuredEnds(before=NEVER, after=0)) == found, "nobody measured it"


def test_a_disk_takes_what_its_log_had_behind_the_new_end() -> None:
    ends = MeasuredEnds(before=12, after=6)
    assert [after_disk(HAS_IT, offset, ends) for offset in (5, 6, 11, 12)] == [
        HAS_IT,
        DISK_TOOK_IT,
        DISK_TOOK_IT,
        CONTRADICTED,
    ]


def test_a_disk_takes_no_record_that_the_log_did_not_have() -> None:
    # What it held there was another record.
    assert after_disk(NEVER_HAD_IT, 8, MeasuredEnds(before=12, after=6)) == NEVER_HAD_IT


def test_a_member_of_the_isr_had_what_was_committed_whatever_its_disk_took_later() -> None:
    assert after_commit(HAS_IT | NEVER_HAD_IT | DISK_TOOK_IT) == HAS_IT | DISK_TOOK_IT
    assert after_commit(NEVER_HAD_IT) == CONTRADICTED
