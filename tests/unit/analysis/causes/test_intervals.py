"""What one replica may hold of one record, after each rule of the intervals."""

from __future__ import annotations

import pytest

from analysis.causes.evidence import NEVER, MeasuredEnds
from analysis.causes.intervals import (
    CONTRADICTED,
    DISK_TOOK_IT,
    HAS_IT,
    NEVER_HAD_IT,
    after_commit,
    after_disk,
    at_measured_end,
)


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
