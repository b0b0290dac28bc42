"""Kafka's times become times of the run: also where its clocks were set back, forward, and for one node alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ebbtide.errors import UsageError
from ebbtide.record import clock
from ebbtide.record.clock import CLOCK_AHEAD, ClockReading, kafka_clocks, read_clock
from ebbtide.record.files import CLOCK_FILE, RecordFolder
from ebbtide.record.steps import StepEntry

S = 10**9
START = 1_700_000_000 * S


def _watched(record: Path, *readings: tuple[float, float, int]) -> Path:
    """Write readings: seconds of the run, how far the wall clock is ahead, and where the metadata log ends."""
    rows = [
        ClockReading(at_ns=START + int(at * S), wall_ns=START + int((at + lead) * S), metadata_end=end)
        for at, lead, end in readings
    ]
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in rows))
    return record


def _set_back(record: Path, by_s: float) -> Path:
    """The record of a run whose wall clock was set back at second 10; the log then has 100 records."""
    return _watched(record, (0, 0, 0), (9.9, 0, 100), (10, -by_s, 100), (12, -by_s, 101), (20, -by_s, 200))


def _seconds(at_ns: int) -> float:
    return (at_ns - START) / S


def _wall(seconds: float) -> int:
    return START + int(seconds * S)


@pytest.mark.parametrize("by_s", [1, 3, 3600])
def test_an_hour_that_a_clock_says_twice_is_told_apart_by_the_end_of_the_log(tmp_path: Path, by_s: float) -> None:
    clocks = kafka_clocks(read_clock(RecordFolder(_set_back(tmp_path, by_s))), [])
    before = clocks.time_of(_wall(9.5), metadata_offset=99)
    after = clocks.time_of(_wall(11.9 - by_s), metadata_offset=100)
    assert (_seconds(before.at_ns), before.or_ns) == (9.5, None)
    assert (_seconds(after.at_ns), after.or_ns) == (11.9, None)


def test_a_clock_that_was_set_forward_leaves_no_time_in_doubt(tmp_path: Path) -> None:
    record = _watched(tmp_path, (0, 0, 0), (9.9, 0, 100), (10, 3600, 100), (20, 3600, 200))
    clocks = kafka_clocks(read_clock(RecordFolder(record)), [])
    assert [_seconds(clocks.time_of(_wall(at)).at_ns) for at in (9.0, 3615.0)] == [9.0, 15.0]


def test_a_time_that_fits_both_sides_of_a_step_names_both(tmp_path: Path) -> None:
    clocks = kafka_clocks(read_clock(RecordFolder(_set_back(tmp_path, 3))), [])
    found = clocks.time_of(_wall(8.5))
    assert sorted(map(_seconds, (found.at_ns, found.or_ns or 0))) == [8.5, 11.5]


def test_what_a_new_controller_truncated_bounds_no_time(tmp_path: Path) -> None:
    record = _watched(tmp_path, (0, 0, 0), (5, 0, 110), (9.9, 0, 100), (10, -3, 100), (12, -3, 111))
    found = kafka_clocks(read_clock(RecordFolder(record)), []).time_of(_wall(8.5), metadata_offset=105)
    assert (_seconds(found.at_ns), found.or_ns) == (11.5, None)


def test_the_clock_of_one_node_is_corrected_by_the_proof_of_the_step_that_set_it(tmp_path: Path) -> None:
    _watched(tmp_path, (0, 0, 0), (9.5, 0, 90), (10.5, 0, 100), (30, 0, 300))
    step = StepEntry(
        index=0,
        step="set-clock",
        nodes=(2,),
        fired_ns=_wall(10),
        effect_ns=_wall(10.1),
        healed_ns=_wall(20),
        proof={CLOCK_AHEAD: {"2": -3600 * S}},
    )
    clocks = kafka_clocks(read_clock(RecordFolder(tmp_path)), [step])
    assert _seconds(clocks.time_of(_wall(15 - 3600), node=2).at_ns) == 15
    assert _seconds(clocks.time_of(_wall(15), node=1).at_ns) == 15
    assert _seconds(clocks.time_of(_wall(25), node=2).at_ns) == 25
    assert _seconds(clocks.time_of(_wall(10.4 - 3600), metadata_offset=95).at_ns) == pytest.approx(10.4)


def test_a_record_whose_clock_was_not_watched_keeps_its_times(tmp_path: Path) -> None:
    clocks = kafka_clocks(read_clock(RecordFolder(tmp_path)), [])
    assert (clocks.is_watched, clocks.was_set) == (False, False)
    assert clocks.time_of(_wall(5), metadata_offset=7).at_ns == _wall(5)


def test_clocks_that_differ_by_less_than_a_millisecond_are_alike(tmp_path: Path) -> None:
    clocks = kafka_clocks(
        read_clock(RecordFolder(_watched(tmp_path, (0, 0, 0), (5, 0.0009, 10), (9, -0.0009, 20)))), []
    )
    assert (clocks.is_watched, clocks.was_set, clocks.steps()) == (True, False, [])


@pytest.mark.parametrize("line", [b"{}", b"[1]", b'{"at_ns": -1, "wall_ns": 0}', b'{"at_ns": 1e30, "wall_ns": 0}'])
def test_a_damaged_reading_is_one_clear_error(tmp_path: Path, line: bytes) -> None:
    (tmp_path / CLOCK_FILE).write_bytes(line + b"\n")
    with pytest.raises(UsageError, match=r"clock\.jsonl is damaged"):
        read_clock(RecordFolder(tmp_path))


def test_more_readings_than_a_run_can_leave_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "READINGS_MAX", 2)
    with pytest.raises(UsageError, match="too many lines"):
        read_clock(RecordFolder(_watched(tmp_path, (0, 0, 0), (1, 0, 0), (2, 0, 0))))


@pytest.mark.parametrize("said", [{"x": 1}, {"1": "late"}, 5])
def test_a_damaged_proof_of_a_clock_is_one_clear_error(tmp_path: Path, said: object) -> None:
    step = StepEntry(index=3, step="set-clock", fired_ns=1, proof={CLOCK_AHEAD: said})
    with pytest.raises(UsageError, match=r"steps\.jsonl is damaged"):
        kafka_clocks(read_clock(RecordFolder(tmp_path)), [step])
