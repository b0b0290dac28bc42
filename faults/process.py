"""Process faults: kill, clean stop, pause, resume, start; proven by /proc and by how the process ended.

A SIGKILL loses nothing that the broker has written (the page cache stays), yet is an *unclean shutdown* to
the controller; losing data takes a power loss (`faults.disk`).
"""

from __future__ import annotations

import signal
from pathlib import Path

from cluster.host.processes import ran_ns, run_times_ns, state_of
from cluster.runtime.base import Runtime
from ebbtide.errors import StepImpossible
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, proven, unproven

PROBE_TIMEOUT_S = 5.0

CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)
"""What a JVM ends with after SIGTERM: 143 once its shutdown hooks have run."""


def kill(runtime: Runtime, node_id: int) -> Effect:
    """SIGKILL. Proven when the pid is gone and the kernel says that SIGKILL ended it. Healed by `start`."""
    pid = _pid(runtime, node_id)
    runtime.kill(node_id)
    return _gone(runtime, node_id, pid, by_sigkill=True)


def stop(runtime: Runtime, node_id: int, timeout_s: float = 30.0) -> Effect:
    """Controlled shutdown. Proven when the process ended by itself, not by force. Healed by `start`."""
    pid = _pid(runtime, node_id)
    try:
        runtime.stop(node_id, timeout_s)
    except WaitExpired as expired:
        return unproven(str(expired), pid=pid, state=state_of(pid))
    return _gone(runtime, node_id, pid, by_sigkill=False)


def pause(runtime: Runtime, node_id: int) -> Effect:
    """SIGSTOP. Proven when the kernel shows the process stopped (state T). Healed by `resume`."""
    pid = _pid(runtime, node_id)
    runtime.pause(node_id)
    try:
        wait_until(lambda: state_of(pid) == "T", awaited=f"pid {pid} in state T", timeout_s=PROBE_TIMEOUT_S)
    except WaitExpired:
        return unproven(f"pid {pid} is in state {state_of(pid)}, not stopped", pid=pid, state=state_of(pid))
    return proven(pid=pid, state="T")


def resume(runtime: Runtime, node_id: int) -> Effect:
    """SIGCONT. Proven when the process was in state T, has left it, and its threads had the CPU again."""
    pid = _pid(runtime, node_id)
    state = state_of(pid)
    if state != "T":
        return unproven(f"pid {pid} was not stopped, its state was {state}", pid=pid, state=state)
    before = run_times_ns(pid)
    runtime.resume(node_id)
    try:
        wait_until(
            lambda: state_of(pid) not in (None, "T", "Z") and ran_ns(pid, before) > 0,
            awaited=f"pid {pid} to run again",
            timeout_s=PROBE_TIMEOUT_S,
        )
    except WaitExpired:
        return unproven(f"pid {pid} does not run, its state is {state_of(pid)}", pid=pid, state=state_of(pid))
    return proven(pid=pid, state=state_of(pid), ran_ns=ran_ns(pid, before))


def start(runtime: Runtime, node_id: int) -> Effect:
    """Start a node. Proven when it was down and its process runs; whether it is ready is another question."""
    pid = runtime.pid(node_id)
    if pid is not None:
        return unproven(f"{runtime.nodes[node_id].name} runs already", pid=pid, state=state_of(pid))
    runtime.start([node_id])
    pid = runtime.pid(node_id)
    if pid is None:
        return unproven(f"the process ended at once with status {runtime.exit_status(node_id)}")
    return proven(pid=pid, state=state_of(pid))


def _pid(runtime: Runtime, node_id: int) -> int:
    pid = runtime.pid(node_id)
    if pid is None:
        raise StepImpossible(
            f"{runtime.nodes[node_id].name} is down, so this step cannot be done to it",
            next="another target (roles such as followers(...) name nodes that are down, too), or start it before",
        )
    return pid


def _gone(runtime: Runtime, node_id: int, pid: int, *, by_sigkill: bool) -> Effect:
    status = runtime.exit_status(node_id)
    figures = {"pid": pid, "exit_status": status}
    if Path(f"/proc/{pid}").exists():
        return unproven(f"pid {pid} is still there, in state {state_of(pid)}", **figures)
    if (status == -signal.SIGKILL) != by_sigkill:
        return unproven(f"the process ended with status {status}, not by this step", **figures)
    if not by_sigkill and status not in CLEAN_EXIT_CODES:
        return unproven(f"the process ended with status {status}: its shutdown was not clean", **figures)
    return proven(**figures)
