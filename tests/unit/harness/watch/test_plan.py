"""The workload of a watch: names of its own, a limited rate, and nothing that writes elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import Problems, UsageError
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import text_of
from harness.watch.plan import RUN_DIGITS, read_workload, scenario_of
from harness.watch.probing import WatchedCluster

WORKLOAD = """
[topics.orders]
replication_factor = 3
min_isr = 2

[[producers]]
id = 1
topic = "orders"
rate_per_s = 50

[[consumers]]
id = 1
topics = ["orders"]

[[predictions]]
kafka = ">=3.3"
clause = "ours"
loss = { none_on = ["orders"] }
"""


def cluster_of(brokers: int = 3) -> WatchedCluster:
    return WatchedCluster(
        brokers={one: f"b{one}:9092" for one in range(1, brokers + 1)},
        voters=(101,),
        features={},
        kafka="4.3.1",
        is_assumed=True,
        release_how="told",
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "workload.toml"
    path.write_text(text)
    return path


def test_topics_get_names_that_are_the_watchs_own(tmp_path: Path) -> None:
    made = scenario_of(cluster_of(), read_workload(written(tmp_path, WORKLOAD)), "ab12")
    assert list(made.topics) == ["ebbtide-watch-ab12-orders"]
    assert made.producers[0].topic == "ebbtide-watch-ab12-orders"
    assert made.consumers[0].topics == ("ebbtide-watch-ab12-orders",)
    assert made.predictions[0].loss.none_on == ("ebbtide-watch-ab12-orders",)


@pytest.mark.parametrize("brokers", [1, 2, 3, 9])
def test_the_scenario_of_a_record_can_be_read_again(brokers: int) -> None:
    made = scenario_of(cluster_of(brokers), None, "ab12")
    assert parse(text_of(made), file="scenario.toml") == made


def test_the_longest_topic_name_makes_a_scenario_that_can_be_read_again_and_a_longer_one_is_refused(
    tmp_path: Path,
) -> None:
    workload = read_workload(written(tmp_path, WORKLOAD.replace("orders", "o" * 41)))
    made = scenario_of(cluster_of(), workload, "0" * RUN_DIGITS)
    assert parse(text_of(made), file="scenario.toml") == made
    with pytest.raises(Problems, match="too long a topic name"):
        read_workload(written(tmp_path, WORKLOAD.replace("orders", "o" * 42)))


def test_retention_takes_no_record_of_a_watch(tmp_path: Path) -> None:
    (topic,) = scenario_of(cluster_of(), read_workload(written(tmp_path, WORKLOAD)), "ab12").topics.values()
    assert topic.config["retention.ms"] == "-1"
    assert topic.config["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_per_s = 50", "rate_per_s = 5000", "the producers of a watch are limited"),
        ("rate_per_s = 50", "rate_per_s = 900\npayload_bytes = 1000", "the producers of a watch are limited"),
        ("rate_per_s = 50", "count = 50", "a producer of a watch needs a rate"),
        ("min_isr = 2", "min_isr = 2\nconfig = { 'foo.bar' = '1' }", "no setting of Kafka that Ebbtide knows"),
        ("min_isr = 2", "min_isr = 2\nconfig = { 'cleanup.policy' = '${file:/a:b}' }", "refers to a file"),
        ("rate_per_s = 50", "rate_per_s = 50\ntransactional = true\ntxn_records = 5", "a watch has no transactions"),
        ('topics = ["orders"]', 'topics = ["orders"]\ngroup = "g"', "a watch has no consumer groups"),
        (
            'topics = ["orders"]',
            'topics = ["orders"]\nclient = "librdkafka"',
            "a watch reads with kafka-python only",
        ),
        (
            "[[consumers]]",
            '[[steps]]\nstep = "kill"\ntarget = "broker(1)"\ntrigger = { acked = 1 }\n[[consumers]]',
            "steps",
        ),
        ("rate_per_s", "rate_per_sec", "rate_per_sec"),
    ],
)
def test_what_a_watch_does_not_do_is_refused_before_anything_is_made(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(Problems, match=said):
        read_workload(written(tmp_path, WORKLOAD.replace(old, new, 1)))


def test_a_mistake_in_a_workload_says_its_line(tmp_path: Path) -> None:
    with pytest.raises(Problems, match=r"line 9"):
        read_workload(written(tmp_path, WORKLOAD.replace("rate_per_s", "rate_per_sec")))


def test_too_few_brokers_for_a_topic_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too few brokers"):
        scenario_of(cluster_of(2), read_workload(written(tmp_path, WORKLOAD)), "ab12")
