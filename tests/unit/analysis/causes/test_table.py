"""Each row of the table of permission allows what it says, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from checkout import ROOT

from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    HAS_IT,
    JOINED_WITHOUT_IT,
    NEVER_HAD_IT,
    STATES,
    TRUNCATED_IT,
    UNRECORDED_LOSS,
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
