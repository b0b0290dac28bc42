"""The benchmark of judging on a busy host, with two busy loops."""

from __future__ import annotations

import pytest
from benches import assert_ended_well, run_bench
from replay_records import LOST


@pytest.mark.slow
@pytest.mark.spark
def test_a_record_is_judged_beside_busy_loops_by_processes_as_nice_as_the_command() -> None:
    load = ("--loops", "2", "--only", "in a session each")
    done = run_bench("judge_on_busy_host", str(LOST), *load, "--run-s", "0", "--max-ratio", "20")
    assert_ended_well(done)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["none", "in a session each"]
