"""A process that asked for it dies with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ebbtide.parent_death import start_tied
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


TIED = """
import os, signal, sys, threading
from ebbtide.parent_death import start_tied

started = []
starter = threading.Thread(target=lambda: started.append(start_tied(["sleep", "600"])))
starter.start()
starter.join()
print(started[0].pid, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""

JVM = """
import sys, threading, time
from pathlib import Path
from analysis.spark import java_start
from ebbtide.java import Java

java_start.require_java = lambda: Java(executable=Path(sys.argv[1]), version="17", major=17)
java_start.has_settings_of_others = lambda _: False
java_start.class_path = lambda _: "x.jar"
start = java_start.JavaStart("local[2]")
starter = threading.Thread(target=start.launch)
starter.start()
starter.join()
print(start.process.pid, flush=True)
time.sleep(600)
"""


def has_ended(process: Path) -> bool:
    """Whether a process is gone; one that nobody reaps stays as a zombie."""
    try:
        return ") Z " in (process / "stat").read_text()
    except OSError:
        return True


def await_end(process: Path) -> None:
    try:
        wait_until(lambda: has_ended(process), awaited=f"{process} to end", timeout_s=20)
    except BaseException:
        os.kill(int(process.name), 9)
        raise


def test_the_kernel_kills_the_child_of_a_killed_parent() -> None:
    done = subprocess.run([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, check=False)
    child = Path("/proc", done.stdout.strip())
    assert child.name.isdecimal()
    await_end(child)


def test_a_tied_process_outlives_the_thread_that_wanted_it_but_not_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TIED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        assert "sleep" in (child / "cmdline").read_text()
        assert not has_ended(child)
        parent.stdin.close()
        parent.wait(60)
    await_end(child)


def test_a_forked_process_starts_tied_processes_too() -> None:
    start_tied(["true"]).wait(60)
    if (forked := os.fork()) == 0:
        code = 1
        try:
            code = start_tied(["true"]).wait(60)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0


def test_no_java_process_of_a_judge_outlives_a_caller_that_was_killed(tmp_path: Path) -> None:
    stand_in = tmp_path / "stand_in"
    stand_in.write_text("#!/bin/sh\nexec sleep 600\n")
    stand_in.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", JVM, str(stand_in)], stdout=subprocess.PIPE, text=True, env=environment
    ) as caller:
        assert caller.stdout is not None
        child = Path("/proc", caller.stdout.readline().strip())
        assert child.name.isdecimal()
        assert not has_ended(child)
        caller.kill()
    await_end(child)
