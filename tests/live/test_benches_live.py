"""The benchmarks that start Kafka or need root, of one round, with targets that a busy host reaches."""

from __future__ import annotations

import pytest
from benches import assert_ended_well, run_bench
from single_node import VERSION

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_two_nights_beside_each_other_leave_nothing() -> None:
    done = run_bench("two_harnesses", "--minutes", "1", "--kafka", VERSION, "--scenarios", "healthy")
    assert_ended_well(done)
    assert done.stdout.count("exit code 0, 1 runs: 1 as-predicted") == 2
    assert "nothing left, nothing grew, no false verdict" in done.stdout


@pytest.mark.slow
def test_verbs_that_are_killed_leave_nothing_after_one_clean() -> None:
    options = ("--rounds", "1", "--seed", "1", "--at-once", "4", "--verbs", "run,analyze,doctor,clean")
    done = run_bench("kill_harnesses", *options)
    assert_ended_well(done)
    assert "nothing left, no false verdict" in done.stdout
