"""Two harnesses with a /run of their own on one kernel: the second one knows, and a hold that ends is seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.ledger import Ledger
from cluster.host.writeback import HELD_SETTINGS, write_back_settings
from cluster.host.writeback_watch import settle_write_back
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.root

HOLDER = """
import sys
from pathlib import Path
from cluster.host.ledger import Ledger, ledgers_dir
from cluster.host.writeback_watch import settle_write_back
assert not ledgers_dir().exists(), "this is not a /run of its own"
with Ledger.open(sys.argv[1], Path(sys.argv[2])) as ledger:
    watch, warning = settle_write_back(ledger, hold=True)
    print(warning or "first", flush=True)
    sys.stdin.readline()
    watch.end()
"""
ELSEWHERE = ("unshare", "--mount", "--propagation", "unchanged", "--pid", "--fork", "--mount-proc", "--")
# Under chroot, / is no mount, and unshare cannot make it private; /run then is one.
OWN_RUN = '{ mount --make-rprivate / 2>&- || mount --make-private /run; } && mount -t tmpfs none /run && exec "$@"'
HELD = {f"vm.{name}": value for name, value in HELD_SETTINGS.items()}


@pytest.fixture
def original() -> Iterator[dict[str, str]]:
    wait_until(lambda: write_back_settings() != HELD, awaited="the runs that hold write-back to end", timeout_s=120)
    settings = write_back_settings()
    yield settings
    assert write_back_settings() == settings


def start_elsewhere(run_id: str, home: Path) -> subprocess.Popen[str]:
    """A harness with namespaces of mounts and processes, a /run and a home of its own; it holds write-back."""
    command = [*ELSEWHERE, "sh", "-c", OWN_RUN, "sh", sys.executable, "-c", HOLDER, run_id, str(home)]
    environment = {"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=home
    )


def test_the_second_harness_is_warned_and_sees_the_end_of_the_hold(
    run_id: str, tmp_path: Path, original: dict[str, str]
) -> None:
    with start_elsewhere(f"{run_id}-first", tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "first\n"
        with Ledger.open(run_id, tmp_path, ledgers=tmp_path / "ledger") as ledger:
            watch, warning = settle_write_back(ledger, hold=True)
            assert "no run that is known here" in str(warning)
            assert watch.look() is None
            first.communicate("end\n")
            assert write_back_settings() == original
            assert "changed the kernel's write-back" in str(watch.look())
            watch.end()


def test_the_second_harness_that_ends_first_leaves_the_hold(
    run_id: str, tmp_path: Path, original: dict[str, str]
) -> None:
    with start_elsewhere(f"{run_id}-first", tmp_path) as first:
        assert first.stdout is not None
        first.stdout.readline()
        with Ledger.open(run_id, tmp_path, ledgers=tmp_path / "ledger") as ledger:
            watch, _ = settle_write_back(ledger, hold=True)
            watch.end()
        assert write_back_settings() == HELD
        first.communicate("end\n")


def test_a_run_under_the_kernels_own_settings_sees_that_another_one_holds_them(
    run_id: str, tmp_path: Path, original: dict[str, str]
) -> None:
    with Ledger.open(run_id, tmp_path, ledgers=tmp_path / "ledger") as ledger:
        watch, _ = settle_write_back(ledger, hold=False)
        with start_elsewhere(f"{run_id}-second", tmp_path) as second:
            assert second.stdout is not None
            second.stdout.readline()
            assert "vm.dirty_writeback_centisecs = 0" in str(watch.look())
            second.communicate("end\n")
        watch.end()
