"""Faults and their proofs, on a stand-in for a runtime whose every lie must be seen through."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec
import pytest
from fake_runtime import FakeRuntime, process_of

from cluster.host.namespaces import Cut, LimitCounts, Transfer
from cluster.runtime.base import LogLoss
from ebbtide.errors import StepImpossible
from ebbtide.scenario.steps.table import ADMIN_KINDS, HEALED_BY, KINDS
from ebbtide.scenario.words import CLIENTS
from faults import disk, network, process
from faults.base import Effect


def _broker(exit_code: int) -> list[str]:
    """A process that ends with `exit_code` after SIGTERM."""
    return ["sh", "-c", f"trap 'exit {exit_code}' TERM; echo up; while :; do sleep 0.01; done"]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRuntime]:
    monkeypatch.setattr(process, "PROBE_TIMEOUT_S", 0.2)
    fake = FakeRuntime(_broker(143))
    yield fake
    fake.popen.kill()
    fake.popen.wait()


def _proven(effect: Effect) -> bool:
    assert (effect.effect_ns is None) == (effect.why is not None)
    assert effect.proof["probe"] == ("failed" if effect.effect_ns is None else "ok")
    return effect.effect_ns is not None


def test_a_kill_is_proven_by_the_signal_that_ended_the_process(runtime: FakeRuntime) -> None:
    effect = process.kill(runtime, 1)
    assert _proven(effect)
    assert effect.proof["exit_status"] == -signal.SIGKILL


@pytest.mark.parametrize(
    ("fault", "lie"),
    [
        (process.kill, lambda runtime: setattr(runtime, "kill", lambda node: runtime.stop(node, 30.0))),
        (process.stop, lambda runtime: setattr(runtime, "stop", lambda node, timeout_s: runtime.kill(node))),
        (disk.power_loss, lambda runtime: setattr(runtime, "lazy", True)),
    ],
    ids=["a kill of a process that ended by itself", "a stop that needed force", "a power loss that left the process"],
)
def test_a_process_that_ended_otherwise_than_asked_is_no_proof(
    runtime: FakeRuntime, fault: Callable[[FakeRuntime, int], Effect], lie: Callable[[FakeRuntime], None]
) -> None:
    lie(runtime)
    assert not _proven(fault(runtime, 1))


def test_a_clean_stop_is_proven_by_the_exit_code(runtime: FakeRuntime) -> None:
    effect = process.stop(runtime, 1)
    assert _proven(effect)
    assert effect.proof["exit_status"] == 143


def test_a_stop_that_ended_in_a_crash_was_not_clean(runtime: FakeRuntime) -> None:
    runtime.popen.kill()
    runtime.popen.wait()
    runtime.popen = process_of(_broker(1))
    effect = process.stop(runtime, 1)
    assert not _proven(effect)
    assert "status 1" in (effect.why or "")


def test_a_stop_that_does_not_end_is_not_proven(runtime: FakeRuntime) -> None:
    runtime.lazy = True
    effect = process.stop(runtime, 1, timeout_s=0.05)
    assert not _proven(effect)
    assert "waited 0.05 s" in (effect.why or "")


def test_pause_and_resume_are_proven_by_the_kernel(runtime: FakeRuntime) -> None:
    assert _proven(process.pause(runtime, 1))
    assert _proven(process.resume(runtime, 1))


def test_a_resume_of_a_process_that_was_not_stopped_is_not_proven(runtime: FakeRuntime) -> None:
    effect = process.resume(runtime, 1)
    assert not _proven(effect)
    assert "was not stopped" in (effect.why or "")


def test_a_fault_on_a_node_that_is_down_is_an_error(runtime: FakeRuntime) -> None:
    process.kill(runtime, 1)
    for fault in (process.kill, process.stop, process.pause, process.resume):
        with pytest.raises(StepImpossible, match="broker-1 is down"):
            fault(runtime, 1)


def test_a_start_of_a_node_that_runs_started_nothing(runtime: FakeRuntime) -> None:
    effect = process.start(runtime, 1)
    assert not _proven(effect)
    assert effect.why == "broker-1 runs already"


@pytest.mark.parametrize(
    "logs",
    [{"t-0": LogLoss(bytes_before=5, bytes_after=0, lost_bytes=5, leo_before=1, leo_after=0)}, {}],
    ids=["some records", "nothing: all was fsynced"],
)
def test_a_power_loss_carries_what_vanished_from_each_log(runtime: FakeRuntime, logs: dict[str, LogLoss]) -> None:
    lost_bytes = sum(log.lost_bytes for log in logs.values())
    runtime.loss = msgspec.structs.replace(runtime.loss, lost_bytes=lost_bytes, logs=logs)
    effect = disk.power_loss(runtime, 1)
    assert _proven(effect)
    assert effect.proof["lost_bytes"] == lost_bytes
    assert {name: log["leo_before"] for name, log in effect.proof["logs"].items()} == dict.fromkeys(logs, 1)


@pytest.mark.parametrize(
    ("cuts", "pairs"),
    [
        (
            network.cuts_between([[1, 2], [3, CLIENTS]]),
            {(1, 3), (3, 1), (2, 3), (3, 2), (1, 0), (0, 1), (2, 0), (0, 2)},
        ),
        (network.cuts_between([[1], [2], [3]]), {(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)}),
        (network.one_way_cuts([1], [1, 2]), {(1, 2)}),
    ],
    ids=["two groups, not within", "three groups pairwise", "one way"],
)
def test_groups_are_cut_from_each_other(cuts: frozenset[Cut], pairs: set[tuple[int, int]]) -> None:
    assert {(cut.source, cut.target) for cut in cuts} == pairs


def test_a_partition_is_proven_by_what_passes_and_what_does_not(runtime: FakeRuntime) -> None:
    effect = network.partition(runtime, network.one_way_cuts([1], [2]))
    assert _proven(effect)
    assert effect.proof["cuts"] == ["1>2"]
    assert _proven(network.heal(runtime))


def test_a_second_partition_does_not_expect_the_first_to_pass(runtime: FakeRuntime) -> None:
    assert _proven(network.partition(runtime, network.cuts_between([[1], [2]])))
    assert _proven(network.partition(runtime, network.cuts_between([[2], [3]])))


def test_a_cut_that_cut_too_much_is_not_proven(runtime: FakeRuntime) -> None:
    runtime.network.deaf = {3}
    effect = network.partition(runtime, network.one_way_cuts([1], [2]))
    assert not _proven(effect)
    assert "1>3" in (effect.why or "")


def test_a_partition_that_parts_nothing_is_not_proven(runtime: FakeRuntime) -> None:
    assert not _proven(network.partition(runtime, network.cuts_between([[1]])))


@pytest.mark.parametrize("rate_bytes_s", [1_000, 32_000, 12_500_000])
def test_a_limit_is_proven_by_what_arrives_when(runtime: FakeRuntime, rate_bytes_s: int) -> None:
    effect = network.limit(runtime, network.cuts_between([[1], [2]]), rate_bytes_s)
    assert _proven(effect)
    assert set(effect.proof["transfers"]) == {"1>2", "2>1"}
    healed = network.heal(runtime)
    assert _proven(healed)
    assert set(healed.proof["limited"]) == {"1>2", "2>1"}


def test_a_limited_link_that_the_nodes_fill_is_proven_by_what_the_kernel_passed_and_dropped(
    runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Transfer(arrived_bytes=0, took_s=1.0)
    monkeypatch.setattr(runtime.network, "transfer", lambda pairs, *_: dict.fromkeys(pairs, lost))
    for passed, dropped in ((1, 1), (0, 1), (1, 0)):
        counts = LimitCounts(passed_bytes=passed, dropped_packets=dropped)
        monkeypatch.setattr(runtime.network, "limit_counts", lambda counts=counts: defaultdict(lambda: counts))
        effect = network.limit(runtime, network.one_way_cuts([1], [2]), 32_000)
        assert _proven(effect) is bool(passed and dropped)
        assert effect.why == (None if passed and dropped else "nothing arrived over 1>2")
        assert effect.proof["limited"] == {"1>2": {"passed_bytes": passed, "dropped_packets": dropped}}


def test_a_limit_that_cut_a_connection_is_not_proven(runtime: FakeRuntime) -> None:
    runtime.network.deaf = {2}
    assert "do not pass" in (network.limit(runtime, network.one_way_cuts([1], [2]), 32_000).why or "")


def test_a_limit_on_what_is_cut_is_not_proven_and_one_beside_a_cut_is(runtime: FakeRuntime) -> None:
    network.partition(runtime, network.one_way_cuts([1], [2]))
    assert not _proven(network.limit(runtime, network.one_way_cuts([1], [2]), 32_000))
    assert _proven(network.limit(runtime, network.one_way_cuts([1], [2, 3]), 32_000))


def test_a_limit_that_is_left_was_not_healed(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    network.limit(runtime, network.one_way_cuts([1], [2]), 32_000)
    monkeypatch.setattr(runtime.network, "heal", lambda: None)
    assert "still limited: 1>2" in (network.heal(runtime).why or "")


def test_every_fault_has_a_heal() -> None:
    asks, heals = ADMIN_KINDS, {"start", "resume", "heal", "mend-disk", "reset-clock", "release"}
    end_by_themselves = {"restart", "rolling", "upgrade", "flap", "wait"}
    # A client that a step left down stays down, and nothing of the cluster is broken by it.
    of_clients = {"kill-client", "stop-client", "start-client"}
    assert set(HEALED_BY) == set(KINDS) - asks - heals - end_by_themselves - of_clients
    assert set(HEALED_BY.values()) == heals
