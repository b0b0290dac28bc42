"""The explorer runs KIP-966's unclean recovery: answers that come, get old and are asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from analysis.spec import unclean_recovery
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import Answer, ask, machine_for
from analysis.spec.explore.search import replay, search
from analysis.spec.kip966 import Kip966
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.machine import Machine, Move, canonical
from analysis.spec.model.words import DATA_BITS, LOG, State
from analysis.spec.partition import Cluster, LogInfo, Partition
from ebbtide.errors import UsageError

ANSWERED = w.ANSWERED << DATA_BITS


def asked(variant: str, name: str = "committed", **bounds: Any) -> Answer:
    return ask(variant, Bounds(**bounds), PROPERTIES[name])


def kinds(answer: Answer) -> list[str]:
    assert answer.trace is not None
    return [step.kind for step in answer.trace.steps]


def reached(machine: Machine, *, without: str = "") -> Iterator[tuple[State, Move]]:
    """Every state with each of its moves, losses included; moves of the kind `without` do not happen."""
    first = machine.initial_state()
    waiting = [canonical(first[0], first[1], first[2:])]
    seen = set(waiting)
    while waiting:
        state = waiting.pop()
        for move in machine.moves(state):
            if move.action.kind == without:
                continue
            yield state, move
            after = canonical(move.shared, move.data, list(move.words))
            if after not in seen:
                seen.add(after)
                waiting.append(after)


def machine(**bounds: Any) -> Machine:
    return machine_for("kip966", Bounds(**bounds), PROPERTIES["recovery"])


def masked(move: Move) -> set[int]:
    """The positions of the replicas whose answers a recovery has."""
    return {at for at in range(len(move.words)) if move.action.detail >> at & 1}


def test_balanced_elects_outside_the_last_known_elr_and_loses_what_a_member_has() -> None:
    """The finding: one LastKnownElr member lost power, the other was only killed and has every record."""
    found = asked("kip966", "recovery", power_losses=1, kills=1, records=2)
    assert found.trace is not None
    last = found.trace.steps[-1]
    assert (last.kind, len(last.brokers), bool(last.lost)) == ("recover", 3, True)
    members = [word for word in last.words.values() if word >> DATA_BITS & w.LAST_KNOWN]
    assert len(members) == 2
    assert any(not last.lost & ~word for word in members)


def test_balanced_loses_even_if_no_disk_lost_anything() -> None:
    found = kinds(asked("kip966", kills=2, records=2))
    assert found[-1] == "recover"
    assert "power-loss" not in found


def test_preferring_last_known_elr_members_repairs_it() -> None:
    assert asked("kip966_last_known", power_losses=1, kills=1, records=2).holds


def test_with_one_record_a_recovery_loses_only_what_every_last_known_elr_member_lost() -> None:
    """The guarantee of the blog post, also where more brokers lost power than min ISR tolerates."""
    assert asked("kip966", "recovery", power_losses=2, kills=1).holds
    found = kinds(asked("kip966", power_losses=2))
    assert (found[-1], found.count("power-loss")) == ("recover", 2)


@pytest.mark.parametrize("epoch", ["broker epoch", "leader epoch"])
def test_without_either_epoch_check_a_stale_answer_loses_records(epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has restarted, and an answer from before the last election: both checks are needed."""
    real = unclean_recovery.void_reason

    def void_reason(reply: LogInfo, *rest: Any, **epochs: Any) -> str:
        why = real(reply, *rest, **epochs)
        return "" if why.startswith(epoch) else why

    monkeypatch.setattr(unclean_recovery, "void_reason", void_reason)
    assert kinds(asked("kip966", "recovery", power_losses=2, kills=1))[-1] == "recover"


def test_proactive_loses_without_any_fault_but_cuts() -> None:
    """It elects whoever answers while every ELR member is fenced."""
    found = kinds(asked("kip966", unclean_recovery="proactive"))
    assert found[-1] == "recover"
    assert not {"power-loss", "kill"} & set(found)


def test_manual_loses_nothing_and_an_operator_may_end_its_wait() -> None:
    assert asked("kip966", unclean_recovery="manual", power_losses=2).holds
    bounds = {"power_losses": 2, "admin": 1, "admin_kinds": ("designate",)}
    assert asked("kip966", unclean_recovery="manual", **bounds).holds, "what an operator chose is no loss of Kafka"
    manual = machine(unclean_recovery="manual", **bounds)
    seen = {move.action.kind for _, move in reached(manual)}
    assert "designate" in seen
    assert not {"answer", "recover"} & seen


@pytest.mark.parametrize(("strategy", "last"), [("balanced", "unfence"), ("manual", "unfence"), ("proactive", "fence")])
def test_without_the_manager_the_revisions_table_decides(strategy: str, last: str) -> None:
    """The last known leader leads again with what it has left; Proactive takes any unfenced replica."""
    found = kinds(asked("kip966", unclean_recovery=strategy, recovery_manager=False, power_losses=1, kills=1))
    assert found[-1] == last
    assert "recover" not in found


def test_a_release_has_no_unclean_recovery_to_set() -> None:
    for bounds in (Bounds(unclean_recovery="manual"), Bounds(recovery_manager=False)):
        with pytest.raises(UsageError, match="no unclean recovery"):
            ask("elr_43", bounds, PROPERTIES["committed"])


def test_balanced_elects_with_all_last_known_elr_members_and_any_others() -> None:
    others: set[int] = set()
    for state, move in reached(machine(power_losses=1, kills=1)):
        if move.action.kind == "recover":
            members = {at for at, word in enumerate(state[2:]) if word >> DATA_BITS & w.LAST_KNOWN}
            assert members <= masked(move)
            others.add(len(masked(move) - members))
    assert others == {0, 1}


def test_proactive_elects_with_any_replicas_that_answered() -> None:
    counts: set[int] = set()
    without_member = False
    for state, move in reached(machine(power_losses=1, kills=1, unclean_recovery="proactive")):
        if move.action.kind == "recover":
            counts.add(len(masked(move)))
            members = {at for at, word in enumerate(state[2:]) if word >> DATA_BITS & (w.LAST_KNOWN | w.IN_ELR)}
            without_member |= bool(members - masked(move))
    assert counts == {1, 2, 3}
    assert without_member


def test_a_new_controller_knows_no_answer_and_the_recovery_begins_again() -> None:
    """KIP-966, controller failover; so it can do nothing that a recovery without it cannot."""
    balanced = machine(power_losses=1, kills=1)
    ends: list[int] = []
    for state, move in reached(balanced):
        if move.action.kind == "change-controller":
            forgotten = [word & ~(w.ANSWER_BITS << DATA_BITS) for word in state[2:]]
            assert (move.shared, move.data, move.words, move.lost) == (state[0], state[1], forgotten, 0)
            follow = {one.action.kind for one in balanced.moves([move.shared, move.data, *sorted(move.words)])}
            assert "recover" not in follow
            ends.append("answer" in follow)
    assert any(ends)
    all_states = {state for state, _ in reached(balanced)}
    assert all_states == {state for state, _ in reached(balanced, without="change-controller")}


def test_a_broker_that_fails_after_its_answer_may_be_elected_until_it_registers_again() -> None:
    """KIP-966, broker failover: it "may become the leader but will be fenced later when it registers"."""
    elected_while_down = registered_again = outdated = 0
    for state, move in reached(machine(power_losses=2, kills=1)):
        if move.action.kind == "recover":
            leader = next(word for word in move.words if word >> DATA_BITS & w.LEADER)
            if not leader >> DATA_BITS & w.UP:
                elected_while_down += 1
                assert not move.lost, "no follower has cut its log yet"
        if move.action.kind == "start" and state[2 + move.action.broker] & ANSWERED:
            registered_again += 1
            assert not move.words[move.action.broker] & ANSWERED, "its answer has an old broker epoch"
        if any(word >> DATA_BITS & w.LEADER for word in move.words):
            assert not any(word & ANSWERED for word in move.words), "they have an old leader epoch"
        outdated += any(word & ANSWERED and word >> DATA_BITS >> w.ANSWER_AT & LOG != word & LOG for word in state[2:])
    assert elected_while_down
    assert registered_again
    assert outdated, "an answer keeps the log as it was"


def test_the_other_last_known_elr_members_stay_until_the_isr_is_at_min_isr() -> None:
    kept = 0
    for _, move in reached(machine(power_losses=2)):
        controls = [word >> DATA_BITS for word in move.words]
        kept += move.action.kind == "recover" and any(control & w.LAST_KNOWN for control in controls)
        if sum(bool(control & w.IN_ISR) for control in controls) >= 2:
            assert not any(control & (w.LAST_KNOWN | w.IN_ELR) for control in controls)
    assert kept


@pytest.mark.parametrize("empties", [False, True])
def test_a_recovery_that_emptied_the_last_known_elr_would_forget_who_has_the_records(
    empties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The elected broker lost power after its answer; it returns, alone in the last known ELR, and leads again."""
    real = Kip966._with_leader

    def with_leader(self: Kip966, partition: Partition, cluster: Cluster, broker: int) -> Partition:
        after = real(self, partition, cluster, broker)
        return after._replace(last_known=()) if empties else after

    monkeypatch.setattr(Kip966, "_with_leader", with_leader)
    asking = machine_for("kip966_last_known", Bounds(power_losses=1, kills=2), PROPERTIES["committed"])
    assert search(asking).ending == ("violated" if empties else "exhausted")


@pytest.mark.parametrize("strategy", ["balanced", "proactive", "manual"])
def test_every_state_of_a_recovery_keeps_the_other_properties(strategy: str) -> None:
    """Up to the first loss, if there is one."""
    asked = {name: PROPERTIES[name] for name in ("isr-has-hw", "elr-has-hw", "log-matching", "available", "invariants")}
    assert len({one.promise for one in asked.values()}) == 1, "a search has one promise"
    asking = machine_for("kip966", Bounds(unclean_recovery=strategy, kills=1, power_losses=1), asked["isr-has-hw"])
    checks = {name: one.check(asking) for name, one in asked.items() if one.check}
    assert checks.keys() == asked.keys()
    broken, losses = list[str](), 0

    def keeps_all(state: State) -> bool:
        broken[:] = [name for name, check in checks.items() if not check(state)]
        return not broken

    def breaks_the_property(path: tuple[int, ...]) -> bool:
        nonlocal losses
        is_loss = bool(replay(asking, path)[-1].lost)
        losses += is_loss
        return not is_loss

    assert search(asking, check=keeps_all, accept=breaks_the_property).ending == "exhausted", broken
    assert (losses > 0) == (strategy == "proactive")
