"""What a daemon refuses because of the state of its cluster, and which faults stay in force."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from daemon_up import Up
from plain_steps import step_of, trigger_of
from schedule_bench import Bench

from ebbtide.daemon.control import ask, end, find_cluster, open_control_socket
from ebbtide.daemon.messages import CreateTopic, Fire, ImpossibleNow
from ebbtide.daemon.starting import DaemonProcess
from ebbtide.errors import ExitCode, HarnessError, Problems, UsageError
from ebbtide.kraft.image import MetadataImage
from ebbtide.logs.segments import TopicPartition
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import ClusterSpec, TopicSpec
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.table import StepKind
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import CLIENTS, Duration
from harness.cli.main import main
from harness.daemon.owned_runs import plain_scenario
from harness.daemon.steps import refuse_invalid

pytestmark = pytest.mark.usefixtures("no_clusters")


@pytest.mark.parametrize(
    ("kind", "in_force", "says"),
    [
        ("start", [], "nothing to start: broker-1 is running"),
        ("start", [FaultNow("fail-disk", 1)], "nothing to start: broker-1 is running"),
        ("kill", [FaultNow("stop", 1)], "a kill of a node that is down"),
        ("stop", [FaultNow("kill", 1)], "a stop of a node that is down"),
        ("pause", [FaultNow("kill", 1)], "a pause of a node that is down"),
        ("restart", [FaultNow("fail-disk", 1)], "a restart of a node with a volume that takes no writes"),
        ("restart", [FaultNow("pause", 1)], "a restart of a node that is paused"),
        ("resume", [FaultNow("pause", 2)], "nothing to resume"),
        ("power-loss", [FaultNow("power-loss", 1)], "nothing left to lose"),
        ("mend-disk", [], "nothing to mend-disk"),
        ("release", [FaultNow("hold-request", 2)], "nothing to release"),
    ],
)
def test_a_step_that_could_do_nothing_now_touches_nothing(
    up: Up, kind: StepKind, in_force: list[FaultNow], says: str
) -> None:
    up.session.in_force = in_force
    with pytest.raises(ImpossibleNow, match=says) as caught:
        ask("one", Fire(step=step_of(kind, target="broker(1)")))
    assert "broker-1, running, unfenced" in str(caught.value)
    assert up.session.entries == []


@pytest.mark.parametrize(
    ("kind", "in_force"),
    [
        ("start", [FaultNow("kill", 1)]),
        ("resume", [FaultNow("pause", 1)]),
        ("mend-disk", [FaultNow("fail-disk", 1)]),
        ("release", [FaultNow("hold-request", 1)]),
        ("kill", [FaultNow("kill", 2), FaultNow("pause", 1)]),
        ("wipe-disk", [FaultNow("kill", 1)]),
        ("restart", [FaultNow("fail-disk", 1, spares_first=True)]),
        ("restart", [FaultNow("slow-disk", 1)]),
        ("restart", [FaultNow("fill-disk", 1)]),
    ],
)
def test_a_step_that_has_something_to_do_is_carried_out(up: Up, kind: StepKind, in_force: list[FaultNow]) -> None:
    up.session.in_force = in_force
    ask("one", Fire(step=step_of(kind, target="broker(1)")))
    assert [entry.step for entry in up.session.entries] == [kind]


def test_there_is_nothing_to_heal_where_nothing_is_cut(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "fault", "heal"]) == ExitCode.USAGE
    assert "nothing to heal: no cut or limit is in force" in capsys.readouterr().err
    up.session.in_force = [FaultNow("partition", 0)]
    assert main(["cluster", "fault", "heal"]) == ExitCode.AS_PREDICTED
    assert [entry.step for entry in up.session.entries] == ["heal"]


def test_a_rule_on_the_wire_is_armed_until_something_comes_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Up(tmp_path, tapped=True)
    assert main(["cluster", "fault", "hold-request", "broker(1)", "--api", "Fetch"]) == ExitCode.AS_PREDICTED
    assert "hold-request broker-1: armed" in capsys.readouterr().out
    assert main(["cluster", "fault", "hold-request", "clients", "--api", "Produce"]) == ExitCode.AS_PREDICTED
    assert main(["cluster", "fault", "release", "clients"]) == ExitCode.USAGE
    assert "where:   clients" in capsys.readouterr().err
    end("one")
    cluster.thread.join(60)


def test_what_waits_for_a_trigger_may_have_something_to_do_by_then(up: Up) -> None:
    ask("one", Fire(step=step_of("start", target="broker(1)", trigger=trigger_of(after=Duration("1s")))))
    assert [entry.step for entry in up.session.entries] == ["start"]


def test_a_volume_cannot_be_in_trouble_where_there_is_none(up: Up) -> None:
    up.session.runtime.power_loss_method = "truncate"
    with pytest.raises(UsageError, match="needs nodes with their own volumes"):
        ask("one", Fire(step=step_of("fill-disk", target="broker(1)")))
    assert up.session.entries == []


def test_a_cut_says_which_sides_and_stands_in_the_status_until_it_is_healed(
    up: Up, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "fault", "partition", "--groups", "broker(1) | broker(2), clients"]) == 0
    assert capsys.readouterr().out == "partition broker-1 | broker-2, clients: took effect\n"
    assert main(["cluster", "status"]) == 0
    assert "  broken:   partition broker-1 | broker-2, clients\n" in capsys.readouterr().out
    up.session.entries[0] = msgspec.structs.replace(up.session.entries[0], healed_ns=3)
    assert find_cluster("one").broken == ()


@pytest.mark.parametrize(
    ("topic", "spec", "says"),
    [
        ("t", TopicSpec(), "a topic of this name exists\n .* got: +t, with 1 partition and replication factor 3"),
        ("x", TopicSpec(replication_factor=4), "where: +x.replication_factor\n .* got: +4\n .* allowed: 1 to 3"),
        ("x", TopicSpec(partitions=0), "x.partitions"),
        ("../x", TopicSpec(), "not a topic name"),
    ],
)
def test_a_topic_that_cannot_be_created_is_refused_at_once(up: Up, topic: str, spec: TopicSpec, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ask("one", CreateTopic(topic=topic, spec=spec))


@pytest.mark.parametrize("topics", [{}, {"t": TopicSpec()}], ids=["plain", "with-a-scenario"])
def test_an_upgrade_to_what_is_no_release_is_refused(topics: dict[str, TopicSpec]) -> None:
    scenario = msgspec.structs.replace(plain_scenario("4.3.1", ClusterSpec()), topics=topics)
    with pytest.raises(UsageError, match=r"not a Kafka release\n .* where: +to\n .* got: +'latest'"):
        refuse_invalid(scenario, step_of("upgrade", to="latest"), MetadataImage())


def test_a_step_may_name_a_topic_that_the_test_made_and_no_other() -> None:
    scenario = msgspec.structs.replace(plain_scenario("4.3.1", ClusterSpec()), topics={"t": TopicSpec()})
    image: Any = SimpleNamespace(partitions=[TopicPartition("orders", 0)])
    refuse_invalid(scenario, step_of("kill", target="leader(orders-0)"), image)
    refuse_invalid(scenario, step_of("wait", trigger=trigger_of(isr={"partition": "orders-0", "size": 1})), image)
    for target in ("leader(orders-1)", "leader(order-0)"):
        with pytest.raises(UsageError, match="unknown partition"):
            refuse_invalid(scenario, step_of("kill", target=target), image)
    # The sampler asks for the HWs of Ebbtide's own topics alone.
    waited = step_of("wait", trigger=trigger_of(hw_at_least={"partition": "orders-0", "offset": 1}))
    with pytest.raises(UsageError, match="unknown partition"):
        refuse_invalid(scenario, waited, image)


def test_a_record_may_have_steps_on_topics_that_the_test_made() -> None:
    text = catalogue.text_of("healthy") + '\n[[steps]]\nstep = "kill"\ntarget = "leader(orders-0)"\n'
    parse(text, file="scenario.toml", of_record=True)
    with pytest.raises(Problems, match="1 problem"):
        parse(text, file="scenario.toml")


def test_what_lasts_is_known_node_by_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, monkeypatch)
    monkeypatch.setattr(bench.runtime, "pid", lambda node: None if node == 1 else 7)
    schedule, _ = bench.run(
        step_of("partition", groups=(("broker(1)",), ("broker(2)", "clients"))),
        step_of("power-loss", target="broker(1)"),
        step_of("pause", target="broker(2)"),
        step_of("fill-disk", target="broker(3)"),
        step_of("hold-request", target="broker(2)", api="Fetch"),
    )
    lasting = {("partition", CLIENTS), ("power-loss", 1), ("pause", 2), ("fill-disk", 3), ("hold-request", 2)}
    assert {(one.kind, one.node) for one in schedule.in_force} == lasting
    assert [entry.whom for entry in bench.entries()][:2] == ["broker-1 | clients, broker-2", "broker-1"]
    assert not any(one.spares_first for one in schedule.in_force)
    schedule.restore()
    # It does not run again, and no step keeps it from that: it died by itself.
    assert schedule.in_force == [FaultNow("kill", 1)]


def test_a_home_that_cannot_be_written_is_no_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(HarnessError, match="the folder of control sockets cannot be made") as caught:
        DaemonProcess(["cluster", "up"], "cluster-1", tied=True)
    assert caught.value.where == str(tmp_path / "file" / "ebbtide" / "clusters")
    with pytest.raises(HarnessError, match="the folder of control sockets cannot be made"), open_control_socket("a"):
        pass


def test_a_topic_that_is_there_ends_the_command_as_bad_input(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "topic", "t"]) == ExitCode.USAGE
    assert "a topic of this name exists" in capsys.readouterr().err
