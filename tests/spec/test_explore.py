"""The explorer finds the losses that are known, and proves what KIP-966 promises, within small bounds."""

from __future__ import annotations

from typing import Any

import pytest
from quick import quick_first

from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import Answer, ask, machine_for
from analysis.spec.explore.search import BYTES_PER_STATE, replay, search
from analysis.spec.explore.wording import clause_of, lines
from analysis.spec.model.bounds import Bounds, bounds_in_words
from analysis.spec.model.machine import Machine, canonical
from analysis.spec.variants import VARIANTS
from ebbtide.errors import UsageError

WITHOUT_ELR = ("kraft", "kip903", "kip903_36", "strict_min_isr", "strict_min_isr_38", "strict_min_isr_39")
WITH_ELR = ("elr_40", "elr_410", "elr_41", "elr_43", "kip966")


def ask_within(variant: str, name: str = "committed", **bounds: Any) -> Answer:
    return ask(variant, Bounds(**bounds), PROPERTIES[name])


def kinds(answer: Answer) -> list[str]:
    assert answer.trace is not None
    return [step.kind for step in answer.trace.steps]


@pytest.mark.parametrize("variant", WITHOUT_ELR)
def test_last_replica_standing_is_found_in_every_variant_without_elr(variant: str) -> None:
    found = kinds(ask_within(variant, power_losses=1))
    assert found.count("power-loss") == 1
    assert found[-1] == "unfence"


@pytest.mark.parametrize("variant", WITH_ELR)
def test_one_power_loss_loses_nothing_in_any_variant_with_elr(variant: str) -> None:
    assert ask_within(variant, power_losses=1, records=2).holds


def test_the_stale_isr_join_is_found_before_kip_903() -> None:
    """KAFKA-14139: an AlterPartition in flight, a replaced disk, and the request arrives."""
    found = kinds(ask_within("kraft", rf=2, min_isr=1, kills=1, disks_outside=1))
    asked_at = found.index("ask-expand")
    assert asked_at < found.index("replace-disk") < found.index("deliver")


@pytest.mark.parametrize("variant", ["kip903", "kip903_36", "strict_min_isr_39"])
def test_no_stale_broker_joins_the_isr_with_kip_903(variant: str) -> None:
    assert ask_within(variant, rf=2, min_isr=1, kills=1, disks_outside=1).holds


@pytest.mark.parametrize(("rf", "min_isr"), quick_first([(3, 2), (5, 3)]))
def test_elr_tolerates_one_power_loss_less_than_min_isr(rf: int, min_isr: int) -> None:
    assert ask_within("elr_43", rf=rf, min_isr=min_isr, power_losses=min_isr - 1).holds


@pytest.mark.parametrize(("rf", "min_isr"), quick_first([(3, 2), (5, 3)]))
def test_as_many_power_losses_as_min_isr_lose_records(rf: int, min_isr: int) -> None:
    found = kinds(ask_within("elr_43", rf=rf, min_isr=min_isr, power_losses=min_isr))
    assert found.count("power-loss") == min_isr


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "acks-1"])
def test_every_property_but_acks_1_holds_in_elr_43_without_operators(name: str) -> None:
    assert ask_within("elr_43", name, power_losses=1, stops=1).holds


def test_acks_1_loses_without_any_fault_but_a_cut() -> None:
    assert kinds(ask_within("elr_43", "acks-1", acks="mixed")) == ["append", "fence"]


@pytest.mark.parametrize("variant", ["kip903_36", "strict_min_isr"])
def test_acks_1_records_are_committed_below_min_isr_only_before_the_strict_rule(variant: str) -> None:
    """RF 3, ISR {leader}: KAFKA-15583. The leader's disk then takes what consumers had seen."""
    machine = machine_for(variant, Bounds(acks="1", min_isr=3), PROPERTIES["committed"])
    committed_alone = False

    def look(state: tuple[int, ...]) -> bool:
        nonlocal committed_alone
        partition, _ = machine.partition(state)
        committed = state[1] >> 2 * 6 & 63
        holders = sum(1 for word in state[2:] if word & committed)
        committed_alone |= bool(committed) and holders == 1 and len(partition.isr) == 1
        return True

    assert search(machine, check=look).ending == "exhausted"
    assert committed_alone == (variant == "kip903_36")


@pytest.mark.parametrize(
    ("bounds", "last"),
    [
        ({"admin": 2, "admin_kinds": ("move",), "brokers": 4}, "fence"),
        ({"admin": 1, "admin_kinds": ("raise-min-isr",), "power_losses": 1}, "unfence"),
        ({"admin": 1, "admin_kinds": ("raise-min-isr",), "late_configs": True}, "fence"),
        ({"admin": 1, "admin_kinds": ("first-partition",), "power_losses": 1}, "unfence"),
        ({"admin": 2, "admin_kinds": ("feature", "lower-min-isr")}, "fence"),
    ],
)
def test_operators_can_make_elr_43_lose_records_within_its_tolerance(bounds: dict[str, Any], last: str) -> None:
    answer = ask_within("elr_43", **bounds)
    assert kinds(answer)[-1] == last


@pytest.mark.parametrize("kind", ["reassign", "unregister", "preferred"])
def test_the_text_of_kip_966_survives_what_operators_do(kind: str) -> None:
    assert ask_within("kip966", admin=2, admin_kinds=(kind,), stops=1).holds


@pytest.mark.parametrize(("variant", "holds"), [("elr_41", True), ("elr_43", False), ("kip966", True)])
def test_moving_replicas_there_and_back_loses_records_since_4_3_only(variant: str, holds: bool) -> None:
    assert ask_within(variant, brokers=4, admin=2, admin_kinds=("move",)).holds == holds


def test_a_reassignment_that_would_elect_what_it_adds_is_refused() -> None:
    """Seen on 4.3.1; without the refusal two reassignments to single brokers lose everything in five steps."""
    assert ask_within("elr_43", admin=2, admin_kinds=("reassign",), stops=1).holds


def test_what_an_unclean_election_loses_is_the_operators_loss() -> None:
    assert ask_within("elr_43", admin=1, admin_kinds=("unclean",), stops=1).holds


def test_the_same_question_has_the_same_answer() -> None:
    one, other = (ask_within("elr_43", power_losses=2) for _ in range(2))
    assert (one.found.states, one.found.path) == (other.found.states, other.found.path)


def test_a_search_that_a_limit_ended_does_not_hold() -> None:
    for limited in (
        ask("elr_43", Bounds(power_losses=1, steps=3), PROPERTIES["committed"]),
        ask("elr_43", Bounds(power_losses=1), PROPERTIES["committed"], max_states=100),
        ask("elr_43", Bounds(rf=5, min_isr=3, power_losses=2), PROPERTIES["committed"], max_time_s=0.0),
    ):
        assert limited.found.ending in ("steps", "states", "time")
        assert not limited.holds
        assert limited.trace is None


def test_hashes_stand_for_whole_states() -> None:
    """The same search with whole states instead of hashes sees as many."""
    machine = machine_for("elr_43", Bounds(power_losses=1, records=2), PROPERTIES["committed"])
    hashed = search(machine).states
    first = machine.initial_state()
    waiting = [canonical(first[0], first[1], first[2:])]
    seen = set(waiting)
    while waiting:
        for move in machine.moves(waiting.pop()):
            state = canonical(move.shared, move.data, move.words)
            if not move.lost and state not in seen:
                seen.add(state)
                waiting.append(state)
    assert len(seen) == hashed


def test_renaming_brokers_loses_no_state() -> None:
    """Without the symmetry, the search reaches the same states up to a renaming of brokers."""
    machine = machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])
    reduced = search(machine).states
    seen: set[tuple[int, ...]] = set()
    waiting = [tuple(machine.initial_state())]
    while waiting:
        state = waiting.pop()
        for move in _moves_of_all(machine, state):
            named = (move.shared, move.data, *move.words)
            if not move.lost and named not in seen:
                seen.add(named)
                waiting.append(named)
    assert len({canonical(state[0], state[1], list(state[2:])) for state in seen}) == reduced
    assert len(seen) > 3 * reduced


def _moves_of_all(machine: Machine, state: tuple[int, ...]) -> Any:
    """The moves where no broker acts for another: equal words are told apart by a mark that no rule reads."""
    marked = (state[0], state[1], *[word | at << 40 for at, word in enumerate(state[2:])])
    for move in machine.moves(marked):
        yield move._replace(words=[word & (1 << 40) - 1 for word in move.words])


def test_a_counterexample_can_be_replayed() -> None:
    machine = machine_for("strict_min_isr", Bounds(power_losses=1), PROPERTIES["committed"])
    path = search(machine).path
    moves = replay(machine, path)
    assert len(moves) == len(path)
    assert [bool(move.lost) for move in moves] == [False] * (len(path) - 1) + [True]


def test_a_counterexample_says_who_did_what_and_why() -> None:
    answer = ask_within("strict_min_isr", power_losses=1)
    assert answer.trace is not None
    told = list(lines(answer.trace, VARIANTS["strict_min_isr"]))
    assert any("environment: broker 1 loses power" in line and "KIP-966" in line for line in told)
    assert told[-1].strip() == "LOST: the new leader does not have a"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_goes_by_no_kip_that_its_variant_does_not_have(variant: str) -> None:
    protocol = VARIANTS[variant]
    controller, hw, joins = ("fence", "unfence", "start"), ("append", "advance-hw"), ("ask-expand", "deliver")
    told = {kind: clause_of(kind, protocol) for kind in (*controller, *hw, *joins)}
    assert all(("KIP-966" in told[kind]) is protocol.has_elr for kind in controller)
    assert all(("KIP-966" in told[kind]) is protocol.strict_min_isr for kind in hw)
    assert all(("KIP-903" in told[kind]) is protocol.checks_epochs for kind in joins)


def test_more_states_than_memory_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        ask("elr_43", Bounds(), PROPERTIES["committed"], max_states=(1 << 50) // BYTES_PER_STATE)


# Searches without a cut network, one broker after the other, and with unclean elections.


EVERY = ("kraft", "kip903", "strict_min_isr_39", "elr_40", "elr_43")


def asked(variant: str, **bounds: Any) -> Answer:
    return ask(variant, Bounds(**bounds), PROPERTIES["acks-all"])


@pytest.mark.parametrize("variant", EVERY)
def test_while_all_replicas_are_in_sync_only_the_loss_of_all_loses(variant: str) -> None:
    assert asked(variant, power_losses=2, cuts=False).holds
    assert asked(variant, power_losses=3, cuts=False).trace is not None


@pytest.mark.parametrize("variant", EVERY)
def test_one_broker_after_the_other_may_lose_power(variant: str) -> None:
    assert asked(variant, power_losses=3, cuts=False, in_turn=True).holds


def test_no_running_broker_is_fenced_or_shrunk_without_cuts() -> None:
    found = asked("strict_min_isr_39", power_losses=3, cuts=False).trace
    assert found is not None
    down: set[int] = set()
    for step in found.steps:
        if step.kind == "power-loss":
            down.add(step.broker)
        elif step.kind == "start":
            down.discard(step.broker)
        assert step.kind != "fence" or step.broker in down
        assert step.kind != "ask-shrink" or set(step.brokers) <= down


def test_a_single_replica_loses_by_power_and_by_its_disk_only() -> None:
    alone = {"rf": 1, "min_isr": 1, "cuts": False}
    assert asked("elr_43", power_losses=1, **alone).trace is not None
    assert asked("elr_43", kills=1, disks=1, **alone).trace is not None
    assert asked("elr_43", kills=1, stops=1, **alone).holds


def test_unclean_elections_lose_by_a_cut_alone_from_3_9_on() -> None:
    assert asked("strict_min_isr_39", min_isr=1, unclean=True).trace is not None
    assert asked("strict_min_isr_38", min_isr=1, unclean=True).holds
    assert asked("strict_min_isr_39", min_isr=1).holds


def test_the_bounds_say_what_they_leave_out() -> None:
    words = bounds_in_words(Bounds(unclean=True, cuts=False, in_turn=True), recovers=False)
    assert "unclean elections on, no running broker is cut off, one broker after the other" in words
