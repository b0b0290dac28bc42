"""Upgrades and their proofs: the node's own log says what it runs, and new metadata records show that it takes part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cluster.runtime.base import NodeInfo, NodeReleases
from ebbtide.errors import HarnessError, StepImpossible
from ebbtide.logs.segments import LogEnd
from ebbtide.record.manifest import NodeRelease
from ebbtide.scenario.steps.process import UpgradeStep
from ebbtide.scenario.words import Role
from ebbtide.waiting import WaitExpired
from faults import upgrade
from faults.base import Effect, proven_effect
from faults.injector import Injector, Plan
from faults.upgrade import Upgrades

FETCHED = ("3.9.1", "4.3.1")


class Nodes:
    """A runtime and an injector of two brokers, and what their processes do."""

    roll, part = Injector.roll, Injector.part

    def __init__(self, folder: Path) -> None:
        self.nodes = {
            one: NodeInfo(id=one, role="broker", name=f"broker-{one}", address=f"10.0.0.{one}") for one in (1, 2)
        }
        self.releases = NodeReleases(self.nodes, "3.9.1")
        self.folder = folder
        self.done: list[tuple[str, int]] = []
        self.says: dict[str, str] = {one: one for one in FETCHED}
        self.refused: dict[str, int] = {}
        self.why = "IllegalArgumentException: No MetadataVersion with feature level 30"
        self.ended: dict[int, int] = {}
        self.metadata_end = 10
        self.grows = True
        self.whole = True
        self.runtime = self

    def require_release(self, kafka: str) -> None:
        if kafka not in self.says:
            raise HarnessError(f"Kafka {kafka} has not been fetched")

    def start(self, node_ids: Sequence[int]) -> None:
        (node,) = node_ids
        release = self.releases[node]
        with self.log_file(node).open("a") as log:
            log.write(
                f"[main] INFO org.apache.kafka.common.utils.AppInfoParser - Kafka version: {self.says[release]}\n"
            )
            if release in self.refused:
                log.write(f"[main] INFO starting\n[main] ERROR kafka.Kafka$ - Exiting\n{self.why}\n\tat x.Y.z\n")
        if release in self.refused:
            self.ended[node] = self.refused[release]
        elif self.grows:
            self.metadata_end += 1

    def pid(self, node: int) -> int | None:
        return None if node in self.ended else 4000 + node

    def exit_status(self, node: int) -> int | None:
        return self.ended.get(node)

    def kill(self, node: int) -> None:
        self.done.append(("kill", node))

    def log_file(self, node: int) -> Path:
        return self.folder / f"broker-{node}.log"

    def data_dir(self, node: int) -> Path:
        return self.folder / f"broker-{node}"

    def wait_ready(self, node_ids: Sequence[int], timeout_s: float, poll_cluster: object = None) -> None:
        assert node_ids
        assert timeout_s

    def inject(self, kind: str, node: int) -> Effect:
        self.done.append((kind, node))
        if kind == "start":
            self.ended.pop(node, None)
            self.start([node])
        return proven_effect(pid=4000 + node)

    def plan_on_target(self, step: UpgradeStep, act: Callable[[tuple[int, ...]], Effect]) -> Plan:
        nodes = (1, 2) if step.target is None or step.target.kind == "brokers" else (int(str(step.target.argument)),)
        return Plan(nodes=nodes, description="", act=lambda: act(nodes))

    def node_names(self, nodes: Sequence[int]) -> str:
        return ", ".join(f"broker-{one}" for one in nodes)

    def await_whole_isr(self, node: int, timeout_s: float) -> None:
        if not self.whole:
            raise WaitExpired("the whole ISR", timeout_s, f"without {node}")


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes(tmp_path)
    monkeypatch.setattr(upgrade, "log_end", lambda _folder: LogEnd(1, made.metadata_end))
    return made


def step(to: str = "4.3.1", target: str | None = None, *, expect_refusal: bool | None = None) -> UpgradeStep:
    role = None if target is None else Role(target)
    return UpgradeStep(to=to, target=role, deadline_s=0.2, expect_refusal=expect_refusal)


def carry_out(nodes: Nodes, asked: UpgradeStep) -> Effect:
    effect = Upgrades(nodes).plan(asked).act()  # type: ignore[arg-type]
    assert isinstance(effect, Effect)
    return effect


def test_each_node_stops_and_starts_on_the_other_release(nodes: Nodes) -> None:
    effect = carry_out(nodes, step())
    assert effect.why is None
    assert nodes.done == [("stop", 1), ("start", 1), ("stop", 2), ("start", 2)]
    starts = [part for part in effect.proof["parts"] if part["step"] == "start"]
    assert [(one["proof"]["from"], one["proof"]["to"]) for one in starts] == [("3.9.1", "4.3.1")] * 2
    assert [nodes.releases[one] for one in (1, 2)] == ["4.3.1", "4.3.1"]


def test_nodes_that_run_the_release_already_are_left_alone(nodes: Nodes) -> None:
    carry_out(nodes, step(target="broker(1)"))
    nodes.done.clear()
    plan = Upgrades(nodes).plan(step())  # type: ignore[arg-type]
    assert (plan.nodes, plan.target) == ((2,), (1, 2))
    plan.act()
    assert nodes.done == [("stop", 2), ("start", 2)]


def test_an_upgrade_to_the_same_release_is_impossible(nodes: Nodes) -> None:
    with pytest.raises(StepImpossible, match=r"the same release: broker-1, broker-2 run Kafka 3\.9\.1"):
        Upgrades(nodes).plan(step("3.9.1"))  # type: ignore[arg-type]


def test_a_release_that_this_host_lacks_is_refused_before_a_node_stops(nodes: Nodes) -> None:
    with pytest.raises(HarnessError, match=r"4\.2\.1 has not been fetched"):
        Upgrades(nodes).plan(step("4.2.1"))  # type: ignore[arg-type]
    assert nodes.done == []


def test_a_node_that_says_another_release_is_no_proof(nodes: Nodes) -> None:
    nodes.says["4.3.1"] = "3.9.1"
    effect = carry_out(nodes, step())
    assert effect.why == "broker-1 says that it runs Kafka 3.9.1, not 4.3.1"
    assert nodes.done == [("stop", 1), ("start", 1)]


def test_a_build_says_its_version_and_not_its_name(nodes: Nodes) -> None:
    build = "4.5.0-SNAPSHOT@0123abcd"
    nodes.says[build] = "4.5.0-SNAPSHOT"
    assert carry_out(nodes, step(build)).why is None


def test_what_a_node_said_before_the_upgrade_does_not_count(nodes: Nodes) -> None:
    nodes.log_file(1).write_text("Kafka version: 4.3.1\n")
    nodes.says["4.3.1"] = "3.9.1"
    assert "says that it runs Kafka 3.9.1" in str(carry_out(nodes, step(target="broker(1)")).why)


def test_a_node_that_gets_no_new_metadata_does_not_take_part(nodes: Nodes) -> None:
    nodes.grows = False
    assert "new metadata records on broker-1" in str(carry_out(nodes, step()).why)


def test_the_next_node_waits_for_the_whole_isr(nodes: Nodes) -> None:
    nodes.whole = False
    effect = carry_out(nodes, step())
    assert "after broker-1" in str(effect.why)
    assert nodes.done == [("stop", 1), ("start", 1)]


def test_a_refusal_that_was_expected_puts_the_old_release_back(nodes: Nodes) -> None:
    nodes.refused["4.3.1"] = 1
    effect = carry_out(nodes, step(target="broker(1)", expect_refusal=True))
    assert effect.why is None
    assert nodes.done == [("stop", 1), ("start", 1)]
    refused = effect.proof["parts"][1]["proof"]["refused"]
    assert (refused["release"], refused["status"]) == ("4.3.1", 1)
    assert refused["log"] == f"[main] ERROR kafka.Kafka$ - Exiting\n{nodes.why}"
    assert nodes.releases[1] == "3.9.1"


def test_a_node_that_runs_on_the_release_did_not_refuse_it(nodes: Nodes) -> None:
    effect = carry_out(nodes, step(target="broker(1)", expect_refusal=True))
    assert "to refuse Kafka 4.3.1" in str(effect.why)
    assert ("kill", 1) in nodes.done
    assert nodes.releases[1] == "3.9.1"


def test_a_node_that_ended_for_another_reason_did_not_refuse(nodes: Nodes) -> None:
    nodes.refused["4.3.1"], nodes.why = 1, "BindException: Address already in use"
    effect = carry_out(nodes, step(target="broker(1)", expect_refusal=True))
    assert effect.why == "broker-1 ended on Kafka 4.3.1, and not because of a feature level"


def test_a_node_that_ended_well_did_not_refuse(nodes: Nodes) -> None:
    nodes.refused["4.3.1"] = 143
    effect = carry_out(nodes, step(target="broker(1)", expect_refusal=True))
    assert effect.why == "broker-1 ended with status 143 on Kafka 4.3.1: no refusal"


def test_who_follows_the_releases_hears_of_each_change_and_of_no_first_start() -> None:
    releases = NodeReleases((1, 2), "3.9.1")
    heard: list[dict[int, tuple[NodeRelease, ...]]] = []
    releases.follow(lambda all_: heard.append({node: tuple(each) for node, each in all_.items()}))
    first = [NodeRelease(kafka="3.9.1", started_ns=releases.note_start(node)) for node in (1, 2)]
    releases.note_start(1)
    assert heard == []
    releases.install(1, "4.3.1")
    second = NodeRelease(kafka="4.3.1", started_ns=releases.note_start(1))
    assert heard == [{1: (first[0], second), 2: (first[1],)}]
