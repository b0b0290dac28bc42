"""A duty is broken only where its debtors were alive for thrice the time allowed, and nothing kept them from it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from clause_cases import NOTHING_FOUND, checked
from evidence_builders import batch
from worked_examples import example_of, record_of
from worked_steps import ns

from analysis.judge.rules.clause import Judged
from analysis.judge.rules.duties import (
    dead_broker_is_fenced,
    dead_directory_leaves_isr,
    eligible_replica_leads,
    fenced_broker_leaves_isr,
    healed_replica_joins_isr,
    lagging_follower_leaves_isr,
    prepared_transaction_ends,
    registered_broker_is_unfenced,
)

DIRECTORY, DEAD, ELIGIBLE, FENCED, HEALED, PREPARED, REGISTERED = (
    dead_directory_leaves_isr,
    dead_broker_is_fenced,
    eligible_replica_leads,
    fenced_broker_leaves_isr,
    healed_replica_joins_isr,
    prepared_transaction_ends,
    registered_broker_is_unfenced,
)


def found(rule: ModuleType, folder: Path, **instead: str) -> tuple[str, str]:
    """Return what a clause finds in its example with other rows in some tables: the status, and the first reason."""
    example = example_of(rule.RULE)
    rows = {**example.rows, **{table: text.split(";") for table, text in instead.items()}}
    record = record_of(example._replace(rows=rows), folder / "record")
    one = checked(rule, Judged(record, NOTHING_FOUND, ()))
    return one.found.status, one.why


def test_a_replica_that_comes_back_late_is_excused(tmp_path: Path) -> None:
    states = "leader=1;at=5 isr=1,2;at=60 isr=1,2,3"
    assert found(HEALED, tmp_path, partitions=states) == ("holds", "")


@pytest.mark.parametrize(
    ("rule", "clock", "why"),
    [
        (HEALED, "from=0 to=12", "the metadata log showed nothing for"),
        (FENCED, "from=0 to=5", "the metadata log showed nothing for"),
    ],
)
def test_nobody_is_accused_where_the_host_may_have_been_busy(
    tmp_path: Path, rule: ModuleType, clock: str, why: str
) -> None:
    status, reason = found(rule, tmp_path, clock=clock)
    assert (status, why in reason) == ("unknown", True)


def test_a_follower_whose_fetches_somebody_throttled_may_take_longer(tmp_path: Path) -> None:
    config = "at=3 resource=broker:1 name=leader.replication.throttled.rate value=10"
    assert found(HEALED, tmp_path, configs=config) == ("not-exercised", "")


@pytest.mark.parametrize(("step", "status"), [("kill", "violated"), ("torn-write", "unknown")])
def test_a_follower_that_may_have_met_a_torn_write_is_not_accused(tmp_path: Path, step: str, status: str) -> None:
    assert found(HEALED, tmp_path, steps=f"step={step} nodes=1 at=3 healed=4")[0] == status


def test_a_follower_that_is_fenced_owes_nothing(tmp_path: Path) -> None:
    assert found(HEALED, tmp_path, brokers="at=9 broker=3 event=fenced") == ("holds", "")


def test_a_follower_that_was_fenced_has_its_time_from_then_on(tmp_path: Path) -> None:
    events = "at=9 broker=3 event=fenced;at=62 broker=3 event=unfenced"
    assert found(HEALED, tmp_path, brokers=events)[0] == "unknown"


def test_a_release_that_found_nothing_held_excuses_nothing(tmp_path: Path) -> None:
    assert found(HEALED, tmp_path, steps="step=release nodes=1 at=4 effect=-")[0] == "violated"


def test_a_fault_that_nobody_healed_excuses_all(tmp_path: Path) -> None:
    assert found(HEALED, tmp_path, steps="step=kill nodes=2 at=4") == ("not-exercised", "")


def test_without_the_elr_the_last_member_of_the_isr_stays_there(tmp_path: Path) -> None:
    events = "at=5 broker=1 event=fenced"
    off = "at=2 resource=feature:eligible.leader.replicas.version name=level value=0"
    states = "leader=1 isr=1"
    assert found(FENCED, tmp_path / "off", partitions=states, brokers=events, configs=off)[0] == "not-exercised"
    assert found(FENCED, tmp_path / "on", partitions=states, brokers=events)[0] == "violated"


def test_a_broker_that_is_unfenced_at_once_owes_nothing(tmp_path: Path) -> None:
    events = "at=5 broker=3 event=fenced;at=6 broker=3 event=unfenced"
    assert found(FENCED, tmp_path, brokers=events) == ("not-exercised", "")


def test_a_topic_of_other_clients_may_have_been_deleted(tmp_path: Path) -> None:
    others = "topic=u leader=1"
    assert found(FENCED, tmp_path, partitions=others) == ("not-exercised", "")


KILL = "step=kill nodes=3 at=5"


@pytest.mark.parametrize(
    "step", ["step=start nodes=3 at=20", "step=kill nodes=100 at=30"], ids=["started", "controller"]
)
def test_a_broker_that_starts_again_or_has_a_dead_controller_need_not_be_fenced(tmp_path: Path, step: str) -> None:
    assert found(DEAD, tmp_path, steps=f"{KILL};{step}")[0] != "violated"


def test_a_fault_on_another_broker_keeps_no_controller_from_fencing(tmp_path: Path) -> None:
    assert found(DEAD, tmp_path, steps=f"{KILL};step=kill nodes=2 at=30")[0] == "violated"


@pytest.mark.parametrize(
    ("healed", "controllers", "status"), [(60, 1, "violated"), (20, 1, "unknown"), (60, 3, "unknown")]
)
def test_one_controller_fences_behind_a_partition_unless_its_end_lets_a_last_heartbeat_through(
    tmp_path: Path, healed: int, controllers: int, status: str
) -> None:
    steps = f"step=partition nodes=1,2 at=4 healed={healed};{KILL}"
    assert found(DEAD, tmp_path, steps=steps, setting=f"controllers={controllers}")[0] == status


def test_a_partition_whose_members_are_all_fenced_waits(tmp_path: Path) -> None:
    assert found(ELIGIBLE, tmp_path, brokers="at=6 broker=2 event=fenced") == ("not-exercised", "")


@pytest.mark.parametrize(("step", "status"), [("power-loss", "violated"), ("wipe-disk", "unknown")])
def test_a_member_whose_log_directory_a_step_changed_may_be_no_candidate(
    tmp_path: Path, step: str, status: str
) -> None:
    assert found(ELIGIBLE, tmp_path, steps=f"step={step} nodes=2 at=5 healed=6")[0] == status


def test_a_member_that_was_unfenced_just_before_the_end_may_still_be_elected(tmp_path: Path) -> None:
    events = "at=6 broker=2 event=fenced;at=40 broker=2 event=unfenced"
    assert found(ELIGIBLE, tmp_path, brokers=events)[0] == "unknown"


WAITS = "node=broker-3 at=6 says=Waiting_for_the_broker_to_be_unfenced"
ANSWERED = "says=The_broker_is_in_RECOVERY."


@pytest.mark.parametrize(
    ("logs", "status"),
    [
        (WAITS, "unknown"),
        (f"{WAITS};node=broker-3 at=6 to=20 {ANSWERED}", "unknown"),
        (f"node=broker-3 at=6 to=50 {ANSWERED}", "holds"),
        (f"{WAITS};node=broker-3 at=6 to=50 {ANSWERED}", "violated"),
    ],
    ids=["no-answers", "answers-for-a-while", "never-asked", "answered"],
)
def test_a_broker_must_be_unfenced_only_while_its_heartbeats_are_answered(
    tmp_path: Path, logs: str, status: str
) -> None:
    assert found(REGISTERED, tmp_path, logs=logs)[0] == status


@pytest.mark.parametrize(
    ("instead", "status"),
    [
        ({"logs": "node=broker-3 at=6 says=Starting"}, "not-exercised"),
        ({"partitions": "leader=1;at=7 isr=1,2"}, "holds"),
        ({"brokers": "at=8 broker=3"}, "not-exercised"),
        ({"steps": "step=fail-disk nodes=3 at=5 directory=2 holds=t-0;step=kill nodes=100 at=9"}, "unknown"),
    ],
    ids=["the-broker-saw-nothing", "out-of-the-isr", "started-again", "no-controller"],
)
def test_a_dead_directory_counts_only_while_its_broker_goes_on(
    tmp_path: Path, instead: dict[str, str], status: str
) -> None:
    assert found(DIRECTORY, tmp_path, **instead)[0] == status


CUT = "step=partition nodes=1,3 at=5 cuts=1>3,3>1"


@pytest.mark.parametrize(
    ("instead", "status"),
    [
        ({}, "violated"),
        ({"steps": CUT.replace("1>3,3>1", "1>3")}, "violated"),
        ({"partitions": "leader=1;at=12 isr=1,2"}, "holds"),
        ({"partitions": "leader=1;at=35 isr=1,2"}, "holds"),
        ({"partitions": "leader=1;at=45 isr=1,2"}, "violated"),
        ({"partitions": "leader=1 isr=1,2"}, "not-exercised"),
        ({"partitions": "leader=1;at=30 leader=2"}, "not-exercised"),
        ({"steps": f"{CUT} healed=40"}, "not-exercised"),
        ({"steps": f"{CUT} effect=-"}, "not-exercised"),
        ({"steps": "step=partition nodes=1,2 at=5 cuts=1>2,2>1", "partitions": "leader=1 isr=1,3"}, "not-exercised"),
        ({"steps": f"{CUT},1>101"}, "not-exercised"),  # it cannot ask the controller
        ({"brokers": "at=30 broker=1 event=fenced"}, "not-exercised"),
        ({"sends": "acks=1 0=0 at=3"}, "not-exercised"),  # the follower may lack nothing
        ({"sends": "acks=-1 0=0"}, "not-exercised"),
        ({"sends": "acks=1 0=0 1=1 2=2"}, "unknown"),  # the leader may not have been alive
        ({"clock": "from=0 to=25"}, "unknown"),
        ({"steps": f"{CUT};step=pause nodes=100 at=20"}, "unknown"),
    ],
)
def test_a_follower_that_is_cut_off_from_a_leader_that_goes_on_leaves_the_isr(
    tmp_path: Path, instead: dict[str, str], status: str
) -> None:
    assert found(lagging_follower_leaves_isr, tmp_path, **instead)[0] == status


@pytest.mark.parametrize(
    ("instead", "status"),
    [
        ({}, "violated"),
        ({"clock": "from=0 to=20;from=90 to=99"}, "unknown"),
        ({"clock": "from=0 to=9"}, "unknown"),
        ({"setting": "transactional prepared=29"}, "not-exercised"),
        ({"steps": "step=power-loss nodes=1 at=2 healed=3"}, "unknown"),
        ({"partitions": "leader=1;at=5 isr=1,2"}, "not-exercised"),
        ({"partitions": "leader=1 isr=1,2;at=40 isr=1,2,3"}, "violated"),
        ({"partitions": "leader=1 isr=1,2;at=70 isr=1,2,3"}, "unknown"),  # markers may have had no place
        ({"brokers": "at=80 broker=2 event=fenced;at=81 broker=2 event=unfenced"}, "unknown"),
        ({"brokers": "at=80 broker=2 event=fenced"}, "not-exercised"),
        ({"setting": "transactional prepared=40 min_isr=4"}, "not-exercised"),  # older releases append nothing then
        ({"setting": "transactional prepared=40 final_read=95"}, "violated"),
        ({"setting": "transactional prepared=40 final_read=120"}, "unknown"),  # it began before all was well
    ],
)
def test_a_commit_that_is_prepared_ends_where_all_was_well(
    tmp_path: Path, instead: dict[str, str], status: str
) -> None:
    assert found(PREPARED, tmp_path, **instead)[0] == status


@pytest.mark.parametrize(("still_s", "status"), [(60, "violated"), (75, "unknown")])
def test_the_batches_of_the_controllers_show_that_they_were_alive(tmp_path: Path, still_s: int, status: str) -> None:
    example = example_of(PREPARED.RULE)
    record = record_of(example._replace(rows={**example.rows, "clock": ["from=0 to=5"]}), tmp_path / "record")
    log = record.folder / "raw" / "controller-100" / "__cluster_metadata-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    seconds = [second for second in range(99) if not 60 <= second < still_s]
    log.write_bytes(b"".join(batch(one, [(None, b"", ())], timestamp_ms=ns(one) // 10**6) for one in seconds))
    assert checked(PREPARED, Judged(record, NOTHING_FOUND, ())).found.status == status
