"""The write-back hold among several harnesses, on stand-ins for the kernel's settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from cluster.host.processes import identify
from cluster.host.writeback import HELD_SETTINGS, WriteBackHold

ORIGINAL = {"dirty_writeback_centisecs": "500", "dirty_expire_centisecs": "3000"}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    folder = tmp_path / "vm"
    folder.mkdir()
    for name, value in ORIGINAL.items():
        (folder / name).write_text(value)
    return folder


def _hold(run_id: str, settings: Path) -> WriteBackHold:
    return WriteBackHold(run_id=run_id, shared=str(settings.parent / "shared"), settings=str(settings))


def _values(settings: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in settings.iterdir()}


def test_a_hold_is_put_back(settings: Path) -> None:
    hold = _hold("a", settings)
    hold.acquire()
    assert _values(settings) == HELD_SETTINGS
    assert hold.undo()
    assert _values(settings) == ORIGINAL


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_the_second_holder_does_not_take_the_held_values_for_the_originals(order: str, settings: Path) -> None:
    for run in "ab":
        _hold(run, settings).acquire()
    first, last = order
    _hold(first, settings).undo()
    assert _values(settings) == HELD_SETTINGS
    _hold(last, settings).undo()
    assert _values(settings) == ORIGINAL


def test_a_dead_holder_does_not_keep_the_hold(settings: Path) -> None:
    _hold("dead", settings).acquire()
    with subprocess.Popen(["sleep", "300"]) as process:
        _die_as("dead", settings, process)
    _hold("live", settings).acquire()
    _hold("live", settings).undo()
    assert _values(settings) == ORIGINAL
    assert not _hold("dead", settings).undo()
    assert _values(settings) == ORIGINAL


def _die_as(run_id: str, settings: Path, process: subprocess.Popen[bytes]) -> None:
    """Make `run_id` held by a process that then dies."""
    file = settings.parent / "shared" / "held.json"
    state = msgspec.json.decode(file.read_bytes())
    state["holders"][run_id] = msgspec.to_builtins(identify(process.pid))
    file.write_bytes(msgspec.json.encode(state))
    process.kill()
    process.wait()


def test_a_dead_holder_is_cleaned_without_disturbing_a_live_one(settings: Path) -> None:
    for run in ("dead", "live"):
        _hold(run, settings).acquire()
    with subprocess.Popen(["sleep", "300"]) as process:
        _die_as("dead", settings, process)
    assert _hold("dead", settings).undo()
    assert _values(settings) == HELD_SETTINGS
    _hold("live", settings).undo()
    assert _values(settings) == ORIGINAL


def test_a_run_that_held_nothing_says_so_although_it_puts_a_dead_holders_values_back(settings: Path) -> None:
    _hold("dead", settings).acquire()
    with subprocess.Popen(["sleep", "300"]) as process:
        _die_as("dead", settings, process)
    assert not _hold("other", settings).undo()
    assert _values(settings) == ORIGINAL


def test_a_value_that_someone_else_set_meanwhile_stays(settings: Path) -> None:
    hold = _hold("a", settings)
    hold.acquire()
    (settings / "dirty_expire_centisecs").write_text("1234")
    hold.undo()
    assert _values(settings) == {**ORIGINAL, "dirty_expire_centisecs": "1234"}


def test_a_hold_of_an_earlier_boot_is_forgotten_and_changes_nothing(settings: Path) -> None:
    hold = _hold("a", settings)
    hold.acquire()
    file = settings.parent / "shared" / "held.json"
    state = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode({**state, "boot_id": "an earlier boot"}))
    assert not hold.undo()
    assert _values(settings) == HELD_SETTINGS
    assert not file.exists()


def test_undoing_what_was_never_held_changes_nothing(settings: Path) -> None:
    assert not _hold("a", settings).undo()
    assert _values(settings) == ORIGINAL
