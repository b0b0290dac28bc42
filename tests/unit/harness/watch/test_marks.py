"""What people say to a watch, from the command to the steps of the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import UsageError
from ebbtide.record.files import mark_going
from ebbtide.record.folder import RecordFolder
from ebbtide.record.manifest import FOREIGN, Manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from harness.watch.marks import MARKS, MarkReader, say, watch_going_on


def record_of(runs: Path, name: str, runtime: str = FOREIGN) -> Path:
    record = runs / name
    record.mkdir(parents=True)
    write_manifest(RecordFolder(record), Manifest(run_id=name, runtime=runtime))
    return record


def test_a_mark_becomes_a_step_of_the_record_with_its_time(tmp_path: Path) -> None:
    record = record_of(tmp_path, "one")
    reader = MarkReader(RecordFolder(record))
    with mark_going(RecordFolder(record)):
        say(RecordFolder(record), "drained node 3")
        say(RecordFolder(record), "node 3 is back")
    assert reader.poll()
    write_steps(RecordFolder(record), reader.entries)
    first, second = read_steps(RecordFolder(record)) or []
    assert (first.step, first.whom, first.parameters["text"]) == ("mark", "drained node 3", "drained node 3")
    assert first.effect_ns is not None
    assert first.effect_ns < (second.effect_ns or 0)


def test_a_mark_is_read_once(tmp_path: Path) -> None:
    record = record_of(tmp_path, "one")
    reader = MarkReader(RecordFolder(record))
    with mark_going(RecordFolder(record)):
        say(RecordFolder(record), "a")
        assert reader.poll()
        assert not reader.poll()
        say(RecordFolder(record), "b")
    assert reader.poll()
    assert [one.whom for one in reader.entries] == ["a", "b"]
    assert [one.index for one in reader.entries] == [0, 1]


def test_half_a_line_waits_for_its_end_and_a_damaged_line_is_passed(tmp_path: Path) -> None:
    record = record_of(tmp_path, "one")
    reader = MarkReader(RecordFolder(record))
    (record / MARKS).write_bytes(b'nonsense\n{"at_ns": 5, "te')
    assert not reader.poll()
    with (record / MARKS).open("ab") as file:
        file.write(b'xt": "x"}\n')
    assert reader.poll()
    assert [one.whom for one in reader.entries] == ["x"]


def test_the_word_to_end_is_no_mark(tmp_path: Path) -> None:
    record = record_of(tmp_path, "one")
    reader = MarkReader(RecordFolder(record))
    with mark_going(RecordFolder(record)):
        say(RecordFolder(record), None)
    assert not reader.poll()
    assert reader.is_ended


def test_nothing_can_be_said_to_a_watch_that_ended(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no watch goes on"):
        say(RecordFolder(record_of(tmp_path, "one")), "x")


def test_nothing_can_be_said_to_a_run_of_an_own_cluster(tmp_path: Path) -> None:
    record = record_of(tmp_path, "one", "local")
    with mark_going(RecordFolder(record)), pytest.raises(UsageError, match="no watch goes on"):
        say(RecordFolder(record), "x")


def test_the_watch_that_goes_on_is_found_and_several_are_refused(tmp_path: Path) -> None:
    record_of(tmp_path, "ended")
    one, other = record_of(tmp_path, "one"), record_of(tmp_path, "other")
    with pytest.raises(UsageError, match="no watch goes on here"):
        watch_going_on(tmp_path)
    with mark_going(RecordFolder(one)):
        assert watch_going_on(tmp_path).path == one
        with mark_going(RecordFolder(other)), pytest.raises(UsageError, match="several watches"):
            watch_going_on(tmp_path)
