"""Who gets a core first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ebbtide.cores import own_nice, set_nice


def test_a_session_that_yields_is_nicer_with_all_its_processes() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        set_nice(shell.pid, own_nice() + 3)
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in (shell.pid, child)} == {own_nice() + 3}
        grouped = Path(f"/proc/{shell.pid}/autogroup")
        assert not grouped.exists() or grouped.read_text().split()[-1] == str(own_nice() + 3)
        os.killpg(shell.pid, 9)


def test_a_process_that_has_ended_is_left_alone() -> None:
    done = subprocess.Popen(["true"], start_new_session=True)
    done.wait()
    set_nice(done.pid, 3)
