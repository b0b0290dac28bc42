"""What people and Kubernetes say to a watch, from the command to the steps of the record."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder, mark_going
from ebbtide.record.manifest import FOREIGN, Manifest, write_manifest
from ebbtide.record.steps import read_steps, write_steps
from ebbtide.untrusted import files
from harness.cli.main import main
from harness.watch.marks import MARKS, TEXT_MAX, MarkReader, notes_of, say, watch_going_on


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


# Kubernetes events become marks of a watch, with the times of the events.


START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
START_NS = int(START.timestamp()) * 10**9


def event(**more: Any) -> dict[str, Any]:
    """An event as Chaos Mesh reports one."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "kill.17a", "namespace": "kafka"},
        "involvedObject": {"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "PodChaos", "name": "kill-1"},
        "reason": "Applied",
        "message": "Successfully apply chaos for kafka/my-cluster-kafka-1",
        "firstTimestamp": "2026-01-01T12:00:07Z",
        "lastTimestamp": "2026-01-01T12:00:07Z",
        "eventTime": None,
        "count": 1,
        **more,
    }


def listed(*events: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(events)}).encode()


@pytest.fixture
def record(tmp_path: Path) -> Path:
    record = tmp_path / "watch"
    record.mkdir()
    write_manifest(RecordFolder(record), Manifest(run_id="watch", runtime=FOREIGN, start_ns=START_NS))
    return record


def test_an_event_says_what_happened_to_which_object_and_when() -> None:
    (note,) = notes_of(listed(event()), "f")
    assert note.text == "PodChaos kill-1: Applied: Successfully apply chaos for kafka/my-cluster-kafka-1"
    assert note.at_ns == START_NS + 7 * 10**9


def test_the_most_exact_time_counts_and_events_are_in_its_order() -> None:
    late = event(reason="late", eventTime="2026-01-01T12:00:09.123456Z")
    notes = notes_of(listed(late, event(reason="early"), event(lastTimestamp=None, firstTimestamp=None)), "f")
    assert [one.at_ns - START_NS for one in notes] == [7_000_000_000, 9_123_456_000]


def test_a_text_without_control_characters_fits_into_a_mark() -> None:
    (note,) = notes_of(listed(event(message="\x1b[31m" + "x" * 500)), "f")
    assert note.text is not None
    assert len(note.text) == TEXT_MAX
    assert "\x1b" not in note.text


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"items": 5}', b'{"items": [{"eventTime": "yesterday"}]}', b"[" * 9_000, b"\xff\x00"],
)
def test_what_kubectl_does_not_print_is_one_error(content: bytes) -> None:
    with pytest.raises(UsageError, match="not a list of Kubernetes events") as caught:
        notes_of(content, "events.json")
    assert caught.value.where == "events.json"
    assert "kubectl get events -o json" in str(caught.value.allowed)


def test_the_command_passes_on_what_happened_since_the_watch_began(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(listed(event(), event(lastTimestamp="2026-01-01T11:59:59Z")))
    reader = MarkReader(RecordFolder(record))
    with mark_going(RecordFolder(record)):
        for _ in range(2):
            assert main(["watch", "mark", "--events", str(file), "--runs", str(tmp_path)]) == 0
    assert "1 event noted" in capsys.readouterr().out
    assert reader.poll()
    (entry,) = reader.entries
    assert (entry.step, entry.fired_ns) == ("mark", START_NS + 7 * 10**9)
    assert entry.proof["said"] == "by Kubernetes, in an event"


def test_events_can_come_through_a_pipe(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(listed(event()))))
    with mark_going(RecordFolder(record)):
        assert main(["watch", "mark", "--events", "-", "--runs", str(record)]) == 0
    assert b"PodChaos" in (record / MARKS).read_bytes()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["mark", "text", "--events", "-"], "events are marks of their own"),
        (["end", "--events", "-"], "events are marks of their own"),
        (["--events", "-"], "only `watch mark` takes events"),
        (["mark", "--events", "nowhere.json"], "the file of events"),
    ],
)
def test_events_without_a_place_are_one_error(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", *words]) == 4
    assert what in capsys.readouterr().err


def test_an_input_without_an_end_is_refused(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "BYTES_MAX", 10)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(listed(event()))))
    with mark_going(RecordFolder(record)):
        assert main(["watch", "mark", "--events", "-", "--runs", str(record)]) == 4
    told = capsys.readouterr().err
    assert "the input is too large" in told
    assert "where:   stdin" in told


def test_a_mark_without_a_watch_names_the_folder_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no watch goes on here") as caught:
        watch_going_on(tmp_path)
    assert str(caught.value.next).endswith(f" --runs {tmp_path}")
