"""The tests of a project that uses only Ebbtide's pytest plugin; each ends in another way."""

import sys

import pytest

from ebbtide import Chaos, KafkaCluster, RunRecord, broker, followers, leader, step

BURST = {"id": 1, "topic": "t", "count": 2000, "rate_per_s": 4000}


@pytest.mark.kafka(versions=["3.9.1", "4.3.1"])
@pytest.mark.chaos(producers=[BURST])
def test_what_all_three_replicas_acked_is_still_there(chaos: Chaos) -> None:
    """Contradicted without Eligible Leader Replicas (off before 4.1), passed with them."""
    rest = [leader("t-0"), "controllers", "clients"]
    chaos.partition([followers("t-0")], rest, trigger={"acked": 2000})
    chaos.power_loss(leader("t-0"), name="crashed", trigger={"isr": {"partition": "t-0", "size": 1}})
    chaos.start(step("crashed"), trigger={"leader_is": {"partition": "t-0", "broker": "none"}})
    chaos.heal(trigger={"broker_is": {"broker": step("crashed"), "state": "unfenced"}})


@pytest.mark.scenario("last-replica-standing", kafka="3.9.1")
@pytest.mark.expected_violation("last-replica-standing")
def test_a_loss_that_is_known_of_3_9(run_record: RunRecord) -> None:
    """Passed: the expected loss occurred, and nothing else is wrong."""
    assert run_record.lost >= 1000


@pytest.mark.kafka("4.3.1")
@pytest.mark.chaos(producers=[], consumers=[])
def test_what_never_came_about_proves_nothing(chaos: Chaos) -> None:
    """Inconclusive: the leader stays, so the step never fires."""
    chaos.kill(broker(1), trigger={"leader_is": {"partition": "t-0", "broker": "none"}}, deadline_s=0.5)


@pytest.mark.kafka("4.3.1")
def test_a_cluster_without_a_verdict(kafka_cluster: KafkaCluster, topic: str) -> None:
    """Passed: an application's own client runs on a cluster under a fault."""
    client = [sys.executable, "-m", "kafka.producer", "-b", kafka_cluster.bootstrap_servers[1], "-t", topic]
    lost = kafka_cluster.power_loss(broker(1))
    assert lost.proof["probe"] == "ok"
    assert kafka_cluster.run(client, input="an order\n", timeout=30).returncode == 0
    kafka_cluster.start(broker(1))


@pytest.mark.needs("docker")
def test_what_needs_docker() -> None:
    """Skipped if no Docker daemon answers."""
