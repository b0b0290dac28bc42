"""The page says whether the clock was watched, and how it was set."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from records import as_record

from analysis.sentences.words import clock_sentence
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE

S = 10**9


def _watched(record: Path, *leads_s: float) -> Path:
    readings = [ClockReading(at_ns=(100 + at) * S, wall_ns=int((100 + at + by) * S)) for at, by in enumerate(leads_s)]
    (record / CLOCK_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in readings))
    return record


@pytest.mark.parametrize(
    ("leads_s", "said"),
    [
        ((0, 0), "watched: nobody set it"),
        ((0, -3, -3), "watched: it was set once, back by up to 3.000 s; "),
        ((0, -3, 3597, 3598), "watched: it was set 3 times, forward by up to 3,600.000 s and back by up to 3.000 s; "),
    ],
)
def test_the_page_says_how_a_watched_clock_was_set(tmp_path: Path, leads_s: tuple[float, ...], said: str) -> None:
    assert clock_sentence(as_record(_watched(tmp_path, *leads_s))).startswith(said)


def test_the_page_says_that_a_clock_was_not_watched(tmp_path: Path) -> None:
    assert clock_sentence(as_record(tmp_path)).startswith("not watched: ")
