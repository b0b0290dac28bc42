"""One Last Replica Standing on two releases, run once through the command, for every test that looks at it."""

from __future__ import annotations

import pytest
from host_state import HostState
from live.commands import Demo, ebbtide, records_in


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, and what it left on the host."""
    runs = tmp_path_factory.mktemp("demo") / "runs"
    before = HostState.now()
    done = ebbtide("run", "last-replica-standing", "--kafka", "3.9.1,4.3.1", "--runs", runs)
    return Demo(
        exit_code=done.returncode,
        output=done.stdout,
        errors=done.stderr,
        records={record.name.split("-standing-")[1].rsplit("-", 1)[0]: record for record in records_in(runs)},
        left=HostState.now().left_since(before, *(record.name for record in records_in(runs)), str(runs)),
    )
