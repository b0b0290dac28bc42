"""The pulses of a slow volume tell of the first freeze, once, while it lasts; nothing is frozen here."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.host import slow_volume
from cluster.host.slow_volume import Pulses, Slowness


def test_the_first_freeze_is_reported_once_the_volume_is_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    frozen, told = False, []
    hangs_up = iter([False, False, False, False, True])

    def ioctl(_handle: int, request: int, _argument: int) -> None:
        nonlocal frozen
        frozen = request == slow_volume._FIFREEZE

    def hung_up(_within_s: float) -> bool:
        told.append((frozen, capfd.readouterr().out))
        return next(hangs_up)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    monkeypatch.setattr(slow_volume, "_has_stdin_ended", hung_up)
    slow_volume.pulse(tmp_path, 0.1, 0.2)
    assert told == [(True, "\n"), (False, ""), (True, ""), (False, ""), (True, "")]
    assert not frozen


@pytest.mark.parametrize(
    ("program", "froze", "status"),
    [("print(flush=True); input()", True, None), ("input()", False, None), ("raise SystemExit(3)", False, 3)],
)
def test_a_process_that_says_nothing_has_frozen_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, froze: bool, status: int | None
) -> None:
    popen = subprocess.Popen

    def stand_in(_argv: list[str], **settings: object) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", program], **settings)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(slow_volume.subprocess, "Popen", stand_in)
    pulses = Pulses(Slowness(folder=str(tmp_path / "none"), image=""), 0.1, 0.2)
    assert (pulses.wait_frozen(10.0 if froze or status else 0.3), pulses.end_status()) == (froze, status)
    pulses.end()
