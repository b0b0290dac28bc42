"""The write-back hold among several harnesses, on stand-ins for the kernel's settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import host_state
import msgspec
import pytest
from host_state import HostState

from cluster.host.processes import identify
from cluster.host.writeback import HELD_SETTINGS, KernelWriteBack, WriteBackHold
from cluster.host.writeback_watch import WriteBackWatch
from ebbtide.errors import HarnessError
from ebbtide.waiting import WaitExpired, wait_until

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


def test_the_shared_state_is_the_users_own_whatever_the_umask(settings: Path) -> None:
    before = os.umask(0)
    try:
        _hold("a", settings).acquire()
        assert (settings.parent / "shared" / "held.json").stat().st_mode & 0o777 == 0o600
        assert _hold("a", settings).undo()
    finally:
        os.umask(before)


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
    _die("dead", settings)
    _hold("live", settings).acquire()
    _hold("live", settings).undo()
    assert _values(settings) == ORIGINAL
    assert not _hold("dead", settings).undo()
    assert _values(settings) == ORIGINAL


def _die(run_id: str, settings: Path, how: str = "holders") -> None:
    """Let a process that has since died hold for `run_id`, or need the kernel's own settings (`free`)."""
    file = settings.parent / "shared" / "held.json"
    state = msgspec.json.decode(file.read_bytes())
    with subprocess.Popen(["sleep", "300"]) as process:
        state[how][run_id] = msgspec.to_builtins(identify(process.pid))
        file.write_bytes(msgspec.json.encode(state))
        process.kill()


def test_a_dead_holder_is_cleaned_without_disturbing_a_live_one(settings: Path) -> None:
    for run in ("dead", "live"):
        _hold(run, settings).acquire()
    _die("dead", settings)
    assert _hold("dead", settings).undo()
    assert _values(settings) == HELD_SETTINGS
    _hold("live", settings).undo()
    assert _values(settings) == ORIGINAL


def test_a_run_that_held_nothing_says_so_although_it_puts_a_dead_holders_values_back(settings: Path) -> None:
    _hold("dead", settings).acquire()
    _die("dead", settings)
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


def _kernel(run_id: str, settings: Path) -> KernelWriteBack:
    return KernelWriteBack(run_id=run_id, shared=str(settings.parent / "shared"), settings=str(settings))


def test_a_run_under_the_kernels_own_settings_changes_none(settings: Path) -> None:
    run = _kernel("a", settings)
    run.register()
    run.await_turn(0)
    assert _values(settings) == ORIGINAL
    assert run.undo()
    assert not (settings.parent / "shared" / "held.json").exists()


def test_a_run_under_the_kernels_own_settings_waits_until_nobody_holds_write_back(settings: Path) -> None:
    hold, run = _hold("holder", settings), _kernel("a", settings)
    hold.acquire()
    run.register()
    with pytest.raises(WaitExpired, match="last seen: holder"):
        run.await_turn(0)
    assert hold.undo()
    run.await_turn(0)
    assert _values(settings) == ORIGINAL


def test_nobody_holds_write_back_while_a_run_needs_the_kernels_own_settings(settings: Path) -> None:
    run, hold = _kernel("a", settings), _hold("holder", settings)
    run.register()
    with pytest.raises(WaitExpired, match="last seen: a"):
        hold.await_turn(0)
    with pytest.raises(HarnessError, match="needs the kernel's own write-back"):
        hold.acquire()
    assert _values(settings) == ORIGINAL
    run.undo()
    hold.await_turn(0)
    hold.acquire()
    assert _values(settings) == HELD_SETTINGS


def test_the_values_of_a_killed_holder_are_put_back_before_a_run_under_the_kernels_own(settings: Path) -> None:
    _hold("dead", settings).acquire()
    _die("dead", settings)
    run = _kernel("a", settings)
    run.register()
    run.await_turn(0)
    assert _values(settings) == ORIGINAL


def test_write_back_that_something_else_stopped_is_refused(settings: Path) -> None:
    (settings / "dirty_writeback_centisecs").write_text("0")
    run = _kernel("a", settings)
    run.register()
    with pytest.raises(HarnessError, match="no run of Ebbtide holds it"):
        run.await_turn(0)


def test_a_killed_run_under_the_kernels_own_settings_keeps_nobody_waiting(settings: Path) -> None:
    _kernel("dead", settings).register()
    _die("dead", settings, "free")
    hold = _hold("live", settings)
    hold.await_turn(0)
    hold.acquire()
    assert _values(settings) == HELD_SETTINGS


def _elsewhere(run_id: str, settings: Path) -> WriteBackHold:
    """A hold of a harness with a /run of its own: the kernel's settings are the same, the shared state is another."""
    return WriteBackHold(run_id=run_id, shared=str(settings.parent / "elsewhere"), settings=str(settings))


def test_a_hold_of_an_unknown_harness_is_said_and_left_to_that_harness(settings: Path) -> None:
    first, second = _elsewhere("first", settings), _hold("second", settings)
    first.acquire()
    assert first.describe_unknown_holder() is None
    second.acquire()
    assert "in a container with a /run of its own" in str(second.describe_unknown_holder())
    second.undo()
    assert _values(settings) == HELD_SETTINGS
    first.undo()
    assert _values(settings) == ORIGINAL


def test_the_values_that_an_unknown_harness_restored_are_restored_again(settings: Path) -> None:
    first = _elsewhere("first", settings)
    first.acquire()
    _hold("second", settings).acquire()
    first.undo()
    assert _values(settings) == ORIGINAL
    _hold("third", settings).acquire()
    assert _values(settings) == HELD_SETTINGS
    assert _hold("third", settings).describe_unknown_holder() is None
    _hold("second", settings).undo()
    _hold("third", settings).undo()
    assert _values(settings) == ORIGINAL


def _watch(settings: Path) -> WriteBackWatch:
    return WriteBackWatch({f"vm.{name}": value for name, value in HELD_SETTINGS.items()}, settings)


def test_the_end_of_an_unknown_hold_is_noticed_also_if_another_one_begins(settings: Path) -> None:
    first, second = _elsewhere("first", settings), _hold("second", settings)
    first.acquire()
    second.acquire()
    watch = _watch(settings)
    try:
        assert watch.look() is None
        first.undo()
        wait_until(lambda: watch._change is not None, awaited="the watch to see the change", timeout_s=5)
        first.acquire()
        assert "vm.dirty_writeback_centisecs = 500" in str(watch.look())
    finally:
        watch.end()
    watch.end()


def test_a_hold_of_its_own_folder_changes_nothing_that_is_watched(settings: Path) -> None:
    for run in "ab":
        _hold(run, settings).acquire()
    watch = _watch(settings)
    _hold("a", settings).undo()
    assert watch.look() is None
    watch.end()


def test_the_hold_of_another_run_is_no_leftover_and_ones_own_is(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_state, "ledgers_dir", lambda: settings.parent / "ledger")
    before = HostState.now()
    (settings / "dirty_expire_centisecs").write_text("2999")
    hold = _hold("a", settings)
    hold.acquire()
    held = HostState.now()
    assert dict(held.sysctls)["vm.dirty_expire_centisecs"] == "2999", "what the run puts back"
    assert "write-back hold of a" in held.left_since(before, "a")
    assert "write-back hold of a" not in held.left_since(before, "other")
    assert hold.undo()
    assert HostState.now().sysctls == before.sysctls
