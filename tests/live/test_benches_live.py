"""The benchmarks that start Kafka or need root, of one round, with targets that a busy host reaches."""

from __future__ import annotations

import pytest
from benches import assert_ended_well, run_bench
from single_node import VERSION

pytestmark = pytest.mark.live


def test_the_wire_proxy_is_measured_and_a_missed_target_ends_with_one() -> None:
    assert_ended_well(run_bench("wire_proxy", "1", "--max-added-ms", "100", "--min-mb-per-s", "1"))
    missed = run_bench("wire_proxy", "1", "--min-mb-per-s", "1e9")
    assert (missed.returncode, missed.stderr) == (1, "")
    assert "MISSED" in missed.stdout


@pytest.mark.beside
@pytest.mark.slow
def test_the_producer_of_each_library_is_measured_beside_the_bare_library() -> None:
    done = run_bench("journal_cost", "--rounds", "1", "--count", "2000", "--min-ratio", "0.01")
    assert_ended_well(done)
    assert [line for line in done.stdout.splitlines() if " " not in line] == ["kafka-python", "librdkafka", "java"]


@pytest.mark.beside
def test_a_library_that_the_bench_does_not_know_is_refused() -> None:
    done = run_bench("journal_cost", "--clients", "sarama")
    assert done.returncode == 2
    assert "no client library is called 'sarama': there are kafka-python, librdkafka" in done.stderr


@pytest.mark.slow
def test_the_start_of_one_cluster_is_measured_beside_a_bare_one() -> None:
    assert_ended_well(run_bench("cluster_start", "1", "--kafka", VERSION, "--brokers", "1", "--max-ratio", "20"))


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
