"""A process that asked for it dies with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ebbtide.waiting import wait_until

PARENT = """
import os, signal, sys
from ebbtide.parent_death import die_with_parent

ready, said = os.pipe()
child = os.fork()
if child == 0:
    die_with_parent()
    os.write(said, b"x")
    signal.pause()
os.read(ready, 1)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_kernel_kills_the_child_of_a_killed_parent() -> None:
    done = subprocess.run([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, check=False)
    child = Path("/proc", done.stdout.strip())
    assert child.name.isdecimal()

    def has_ended() -> bool:
        # A child that nobody reaps stays as a zombie.
        return not child.exists() or ") Z " in (child / "stat").read_text()

    try:
        wait_until(has_ended, awaited="the child to end", timeout_s=20)
    except BaseException:
        os.kill(int(child.name), 9)
        raise
