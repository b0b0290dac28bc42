"""The shards of a night are disjoint, complete and about equally long, whoever makes them."""

from __future__ import annotations

from collections import Counter

import pytest

from ebbtide.errors import UsageError
from ebbtide.scenario import catalogue
from harness.nightly.job import Job, ReleaseTarget, catalogue_jobs
from harness.nightly.shards import Shard, jobs_of_shard, measured_s, parse_shard


def _jobs(*names: str, times: int = 1) -> list[Job]:
    return [
        Job(scenario=name, target=ReleaseTarget(kafka="4.3.1"), runtime="local", number=number + 1)
        for number in range(times)
        for name in names
    ]


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_the_shards_of_the_catalogue_are_disjoint_complete_and_balanced(count: int) -> None:
    scenarios = [catalogue.find(name) for name in catalogue.names()]
    jobs = list(catalogue_jobs(scenarios, None, "auto", times=2))
    shards = [jobs_of_shard(jobs, Shard(number, count)) for number in range(1, count + 1)]
    assert Counter(job.key for shard in shards for job in shard) == Counter(job.key for job in jobs)
    measured = measured_s()
    assert not {job.scenario for job in jobs}.isdisjoint(measured)
    lengths = [sum(measured.get(job.scenario, 30.0) for job in shard) for shard in shards]
    assert max(lengths) - min(lengths) <= max(measured.values())


def test_a_long_run_has_its_shard_to_itself_and_the_order_of_the_others_stays() -> None:
    jobs = _jobs("a", "long", "c", "b")
    took = {"a": 10.0, "b": 10.0, "c": 10.0, "long": 30.0}
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(1, 2), took)] == ["long"]
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(2, 2), took)] == ["a", "c", "b"]


def test_a_scenario_that_was_never_measured_counts_as_one_of_median_length() -> None:
    jobs = _jobs("new", "short", "middle", "long")
    took = {"short": 1.0, "middle": 20.0, "long": 21.0}
    assert [job.scenario for job in jobs_of_shard(jobs, Shard(1, 2), took)] == ["short", "long"]


def test_a_shard_is_two_numbers() -> None:
    assert parse_shard("2/5") == Shard(2, 5)
    assert str(Shard(2, 5)) == "2/5"
    for text in ("0/5", "6/5", "5", "1/", "-1/5", "1/2/3", "1/99999", "٢/5"):
        with pytest.raises(UsageError, match="not a shard"):
            parse_shard(text)
