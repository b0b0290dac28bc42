"""Two records side by side: the figures, the renaming of brokers, and the first point of departure."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from replay_records import LOST, Rows, changed_copy, judged_otherwise, renamed_copy

from ebbtide.record.files import RecordFolder
from ebbtide.record.steps import read_steps, write_steps
from ebbtide.record.verdict import AnomalyCount, Cause, CommitLoss, Loss, Verdict, read_verdict
from harness.replay.compare import compare
from harness.replay.finding import RunFinding, facts_of, finding
from harness.replay.recorded_run import LoadedRun, load_run
from harness.replay.sequences import Sequences, Shape, TimedShape, best_naming, count_common
from harness.shrink.goal import goal_to_keep, gravest_fact


def test_a_run_repeats_itself_wholly() -> None:
    lost = load_run(LOST)
    repetition = compare(lost, lost)
    assert (repetition.fidelity, repetition.same, repetition.departures) == (1.0, True, ())


@pytest.mark.parametrize("naming", [{1: 2, 2: 3, 3: 1}, {1: 1, 2: 3, 3: 2}, {1: 3, 2: 2, 3: 1}])
def test_the_same_run_on_brokers_of_other_ids_is_the_same_run(tmp_path: Path, naming: dict[int, int]) -> None:
    repetition = compare(load_run(LOST), renamed_copy(LOST, tmp_path / "run", naming))
    assert repetition.fidelity == 1.0
    assert repetition.naming == {**naming, 100: 100}
    assert repetition.departures == ()


def test_the_naming_is_found_though_every_other_has_as_many_states_in_common() -> None:
    brokers = (1, 2, 3, 4, 5)

    def led_by(*leaders: int) -> Sequences:
        shapes = [Shape(leader=one, preferred=-1, replicas=frozenset(), isr=frozenset({one})) for one in leaders]
        return {"t-0": tuple(TimedShape(shape=shape, at_ns=0) for shape in shapes)}

    as_planned = {broker: broker for broker in brokers}
    naming = best_naming(led_by(*brokers), led_by(5, 3, 1, 2, 4), brokers, as_planned, lambda _: 0)
    assert naming == {1: 5, 2: 3, 3: 1, 4: 2, 5: 4}


def test_states_that_stand_in_both_in_the_same_order_are_counted_as_the_table_of_the_textbook_does() -> None:
    def by_the_table(one: Sequence[int], other: Sequence[int]) -> int:
        rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
        for left, right in itertools.product(range(len(one)), range(len(other))):
            longer = max(rows[left][right + 1], rows[left + 1][right])
            rows[left + 1][right + 1] = rows[left][right] + 1 if one[left] == other[right] else longer
        return rows[-1][-1]

    def led_by(leaders: Sequence[int]) -> Sequences:
        shapes = [Shape(leader=one, preferred=-1, replicas=frozenset(), isr=frozenset()) for one in leaders]
        return {"t-0": tuple(TimedShape(shape=shape, at_ns=0) for shape in shapes)}

    drawn = random.Random(7)
    for _ in range(500):
        one, other = (drawn.choices((1, 2, 3), k=drawn.randrange(12)) for _ in range(2))
        assert count_common(led_by(one), led_by(other)) == (by_the_table(one, other), max(len(one), len(other)))


def test_a_run_whose_brokers_change_places_halfway_is_not_the_same_under_any_name(tmp_path: Path) -> None:
    def other_last_leader(rows: Rows) -> Rows:
        return [*rows[:-1], {**rows[-1], "leader": 3}]

    repetition = compare(load_run(LOST), changed_copy(LOST, tmp_path / "run", partitions=other_last_leader))
    assert repetition.naming == {1: 1, 2: 2, 3: 3, 100: 100}
    assert 0.5 < repetition.states < 1.0
    assert repetition.departures[0].describe() == (
        "after step 3, states of t-0: recorded leader 2 ISR [1, 2, 3]; replayed leader 3 ISR [1, 2, 3]"
    )


def test_a_state_that_was_skipped_is_where_they_part_and_the_rest_still_counts(tmp_path: Path) -> None:
    recorded = load_run(LOST)
    total = len(recorded.timeline.states("t", 0))
    repetition = compare(recorded, changed_copy(LOST, tmp_path / "run", partitions=lambda rows: [rows[0], *rows[2:]]))
    assert repetition.states == pytest.approx((total - 1) / total)
    assert repetition.departures[0].after_step == 0
    assert repetition.departures[0].what == "states of t-0"


def test_states_that_came_besides_count_against_it_too(tmp_path: Path) -> None:
    def more(rows: Rows) -> Rows:
        more_rows = [{**rows[-1], "isr": [2], "metadata_offset": rows[-1]["metadata_offset"] + at} for at in (1, 2)]
        return [*rows, more_rows[0], {**rows[-1], "metadata_offset": more_rows[1]["metadata_offset"]}]

    recorded = load_run(LOST)
    total = len(recorded.timeline.states("t", 0))
    repetition = compare(recorded, changed_copy(LOST, tmp_path / "run", partitions=more))
    assert repetition.states == pytest.approx(total / (total + 2))
    assert repetition.departures[0].recorded == "no further state"


def test_a_power_loss_that_took_nothing_is_another_effect(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LOST, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    kept = {"t-0": {"bytes_before": 9, "bytes_after": 9, "lost_bytes": 0}}
    steps[1] = msgspec.structs.replace(steps[1], proof={**steps[1].proof, "logs": kept})
    write_steps(RecordFolder(folder), steps)
    repetition = compare(load_run(LOST), load_run(folder))
    assert repetition.effects == pytest.approx(3 / 4)
    assert repetition.departures[0].describe() == (
        "after step 0, step 1: recorded power-loss on [2], lost of t-0 on 2; replayed power-loss on [2]"
    )


def _cut(recorded: LoadedRun, step: str, whom: str | None) -> LoadedRun:
    first = msgspec.structs.replace(recorded.steps[0], step=step, whom=whom)
    return msgspec.structs.replace(recorded, steps=(first, *recorded.steps[1:]))


@pytest.mark.parametrize(
    ("step", "one", "other", "same"),
    [
        ("partition", "broker-1 | broker-2, broker-3, clients", "broker-2, broker-3, clients | broker-1", True),
        ("partition", "broker-1 | broker-2, broker-3, clients", "broker-1, broker-3 | broker-2, clients", False),
        ("partition", "broker-1 | broker-2, broker-3, clients", "broker-1, clients | broker-2, broker-3", False),
        ("partition", "broker-1 > broker-2", "broker-2 > broker-1", False),
        ("limit-bandwidth", "1mbit broker-1 | broker-2, broker-3", "1mbit broker-1, broker-3 | broker-2", False),
        ("partition", "broker-1 | broker-2", None, True),
        ("wait", "broker-1 | broker-2", "broker-1, broker-2", True),
    ],
)
def test_cuts_that_part_the_same_nodes_otherwise_are_other_cuts(
    step: str, one: str, other: str | None, *, same: bool
) -> None:
    lost = load_run(LOST)
    repetition = compare(_cut(lost, step, one), _cut(lost, step, other))
    assert repetition.effects == (1.0 if same else pytest.approx(3 / 4))


def test_the_sides_of_a_cut_are_compared_up_to_a_renaming(tmp_path: Path) -> None:
    other = renamed_copy(LOST, tmp_path / "run", {1: 2, 2: 3, 3: 1})
    one_cut = _cut(load_run(LOST), "isolate", "broker-1 | broker-2, broker-3, clients, controller-100")
    repetition = compare(one_cut, _cut(other, "isolate", "broker-2 | broker-1, broker-3, clients, controller-100"))
    assert repetition.fidelity == 1.0
    elsewhere = compare(one_cut, _cut(other, "isolate", "broker-1 | broker-2, broker-3, clients, controller-100"))
    assert elsewhere.departures[0].describe() == (
        "before the first step, step 0: recorded isolate on [0, 1, 3, 100] | [2]; "
        "replayed isolate on [0, 2, 3, 100] | [1]"
    )


def test_a_step_that_never_fired_is_where_they_part(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LOST, tmp_path / "run"))
    steps = read_steps(RecordFolder(folder)) or []
    write_steps(RecordFolder(folder), [*steps[:3], msgspec.structs.replace(steps[3], fired_ns=None, effect_ns=None)])
    repetition = compare(load_run(LOST), load_run(folder))
    assert repetition.departures[0].replayed == "never fired"


def test_a_run_that_was_not_judged_has_no_share_of_the_verdict(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(LOST, tmp_path / "run"))
    (folder / "verdict.json").unlink()
    repetition = compare(load_run(LOST), load_run(folder))
    assert (repetition.verdict, repetition.same, repetition.fidelity) == (None, None, 1.0)


def test_how_often_a_fall_of_the_hw_was_sampled_does_not_make_another_finding(tmp_path: Path) -> None:
    repetition = compare(load_run(LOST), judged_otherwise(tmp_path, regressions=[]))
    assert repetition.same is True
    assert repetition.verdict is not None
    assert repetition.verdict < 1.0


def test_another_cause_is_another_finding(tmp_path: Path) -> None:
    verdict = read_verdict(RecordFolder(LOST))
    assert verdict is not None
    losses = [msgspec.structs.replace(one, cause="beyond-tolerance") for one in verdict.losses]
    other = judged_otherwise(tmp_path, losses=losses)
    repetition = compare(load_run(LOST), other)
    assert repetition.same is False
    assert repetition.departures[-1].what == "verdict"


@pytest.mark.parametrize(
    ("recorded", "replayed", "again"),
    [
        ((), ("duplicate",), True),
        ((), ("hw-regression by last-replica-standing",), False),
        ((), ("committed loss by last-replica-standing",), False),
        (("duplicate",), (), True),
        (("vanished",), ("duplicate", "vanished"), True),
        (("vanished",), ("dirty-order", "vanished"), False),
        (("vanished",), ("unseen", "vanished"), False),
    ],
)
def test_only_what_a_retry_makes_may_be_otherwise_than_recorded(
    recorded: tuple[str, ...], replayed: tuple[str, ...], again: bool
) -> None:
    first = RunFinding(outcome="as-predicted", facts=recorded)
    assert first.is_repeated_in(RunFinding(outcome="as-predicted", facts=replayed)) is again
    assert not first.is_repeated_in(RunFinding(outcome="inconclusive", facts=replayed))
    nothing_proven = RunFinding(outcome="inconclusive", facts=recorded)
    assert not nothing_proven.is_repeated_in(nothing_proven)


def test_a_finding_names_what_is_gravest() -> None:
    verdict = read_verdict(RecordFolder(LOST))
    assert verdict is not None
    assert finding(verdict).facts == ("committed loss by last-replica-standing",)
    slight = msgspec.structs.replace(verdict.losses[0], committed=False, cause="uncommitted-at-failover")
    both = msgspec.structs.replace(verdict, losses=[*verdict.losses, slight])
    assert finding(both).facts == finding(verdict).facts
    alone = msgspec.structs.replace(verdict, losses=[slight])
    assert finding(alone).facts == ("uncommitted loss by uncommitted-at-failover",)
    without_losses = msgspec.structs.replace(verdict, losses=[], anomalies=[])
    assert finding(without_losses).facts == ("hw-regression by last-replica-standing",)
    assert finding(Verdict(run_id="r", outcome="as-predicted")).facts == ()


# A lost commit is a finding with its cause, which a replay repeats and a shrink keeps.


def _verdict(*kinds: str, cause: Cause = "unclean-election") -> Verdict:
    return Verdict(
        run_id="run",
        outcome="as-predicted",
        anomalies=[AnomalyCount(kind=kind, topic="t", partition=0, count=1) for kind in kinds],
        commits=[
            CommitLoss(
                kind=kind, group="g", topic="t", partition=0, count=1, offset=9, offsets_partition=0, cause=cause
            )
            for kind in kinds
        ],
    )


def test_whether_somebody_asked_before_the_loss_does_not_change_the_finding() -> None:
    lost, both = finding(_verdict("commit-lost")), finding(_verdict("commit-lost", "commit-back"))
    assert lost.facts == ("commit-lost by unclean-election",)
    assert lost.is_repeated_in(both)


def test_a_commit_that_went_back_for_nobodys_fault_is_not_compared() -> None:
    stale = Verdict(
        run_id="run",
        outcome="as-predicted",
        anomalies=[AnomalyCount(kind="commit-back", topic="t", partition=0, count=1)],
    )
    assert finding(stale).is_repeated_in(finding(Verdict(run_id="run", outcome="as-predicted")))
    assert not finding(_verdict("commit-back")).is_repeated_in(finding(Verdict(run_id="run", outcome="as-predicted")))


def test_a_lost_commit_without_a_known_cause_is_a_finding() -> None:
    verdict = Verdict(
        run_id="run",
        outcome="inconclusive",
        anomalies=[AnomalyCount(kind="commit-lost", topic="t", partition=0, count=1)],
    )
    assert finding(verdict).facts == ("commit-lost",)
    assert "commit-lost on t-0" in facts_of(verdict)


def test_a_shrink_keeps_the_loss_of_a_commit() -> None:
    verdict = _verdict("commit-lost")
    found = finding(verdict)
    assert gravest_fact(found, verdict) == "commit-lost by unclean-election"
    assert goal_to_keep(found, "3.9.1", "shown").prediction.loss.commits == "some"


def test_a_shrink_predicts_no_cause_where_records_and_commits_have_different_ones() -> None:
    loss = Loss(
        topic="t",
        partition=0,
        acks=-1,
        committed=True,
        count=1,
        first_offset=1,
        last_offset=1,
        cause="unclean-election",
    )
    verdict = _verdict("commit-lost", cause="last-replica-standing")
    found = finding(msgspec.structs.replace(verdict, losses=[loss]))
    wanted = goal_to_keep(found, "3.9.1", "shown").prediction.loss
    assert (wanted.committed, wanted.commits, wanted.cause) == ("some", "some", None)
