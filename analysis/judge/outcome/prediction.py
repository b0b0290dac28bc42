"""Compares a run with what its scenario's author expects of that Kafka release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from analysis.judge.outcome.service_bounds import compare_unavailability, unavailability_phrases
from ebbtide.record.manifest import Manifest
from ebbtide.record.predictions import (
    EXPECTED_BY,
    OWN_PREDICTION,
    findings_ruled_out,
    in_words,
    is_ruled_out,
)
from ebbtide.record.verdict import Outcome, PropertyStatus, Unavailability
from ebbtide.rules.table import ANOMALIES
from ebbtide.scenario.facts import missing_needs
from ebbtide.scenario.model import LossExpectation, Prediction
from ebbtide.shown_text import plural


class ObservedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the run showed.

    `causes` counts committed losses by cause; None values are unknown. `vanished` does the same for
    records that a consumer had read and that vanished without being among the lost, and `commits`
    for acked commits that groups did not get back. `kinds` counts the anomalies by kind;
    `unknown_kinds` says why a kind could not be decided. `facts` are the coverage facts; empty: not
    known. `acked` counts the records that brokers acked; None: the record does not say. `lost_on`
    counts committed losses by topic. `unavailable` is the time without service of each partition.
    `lost_by_acks` counts the lost records that were sent with each acks; an acks that is missing is
    not known. `acked_commits` counts the acked commits of groups. `properties` has the status of
    each checked property. `own_...` count the records of the user's own producers, which
    no other count has.
    """

    committed_lost: int
    uncommitted_lost: int
    causes: Mapping[str, int] = {}
    vanished: Mapping[str, int] = {}
    commits: Mapping[str, int] = {}
    kinds: Mapping[str, int] = {}
    unknown_kinds: Mapping[str, str] = {}
    elected_from_elr: int | None = None
    facts: Mapping[str, int] = {}
    acked: int | None = None
    lost_on: Mapping[str, int] = {}
    unavailable: Sequence[Unavailability] = ()
    lost_by_acks: Mapping[str, int] = {}
    acked_commits: int = 0
    properties: Mapping[str, PropertyStatus] = {}
    own_acked: int = 0
    own_committed_lost: int = 0
    own_uncommitted_lost: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How the run compares with the prediction.

    `broken`: the evidence proves the expectation wrong. `unless_faulty`: likewise, but only if
    every fault of the schedule took effect. `open`: it was neither shown nor disproved.
    """

    prediction: Prediction | None
    broken: tuple[str, ...] = ()
    unless_faulty: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def compare(
    prediction: Prediction | None, manifest: Manifest, seen: ObservedRun, *, unproven: str | None = None
) -> Comparison:
    """Compare what was seen with the prediction that fits the run; None: its scenario has none.

    `unproven` says in a few words why the run cannot break a prediction: what it breaks is open.
    """
    if prediction is None:
        features = ", ".join(f"{name}={level}" for name, level in sorted(manifest.features.items())) or "unknown"
        why = f"the scenario predicts nothing for Kafka {manifest.shown_kafka} with the feature levels {features}"
        return Comparison(prediction=None, open=(why,))
    broken: list[str] = []
    unless_faulty: list[str] = []
    open_: list[str] = []
    if seen.acked == 0 and not seen.own_acked:
        open_.append("no record was acked: the run had nothing to lose")
    _compare_losses(prediction.loss, seen, broken, open_)
    _compare_acks(prediction.loss, seen, broken, open_)
    _compare_commits(prediction.loss, seen, broken, open_)
    _compare_regressions(prediction, seen, broken, open_)
    _compare_elr(prediction, seen, unless_faulty, open_)
    _compare_facts(prediction, seen, open_)
    open_ += [
        f"predicted that {name} holds, but it is {status}: the run did not show it"
        for name in prediction.holds
        if (status := seen.properties.get(name, "not-exercised")) == "not-exercised"
    ]
    compare_unavailability(prediction, seen.unavailable, unless_faulty, open_)
    broken += findings_ruled_out(prediction, facts=seen.facts, kinds=seen.kinds).values()
    open_ += [
        f"predicted no anomaly, but {kind} could not be decided: {why}"
        for kind, why in sorted(seen.unknown_kinds.items())
        if is_ruled_out(prediction, kind)
    ]
    if unproven is not None:
        open_ += [f"{one}; but {unproven}" for one in (*broken, *unless_faulty)]
        broken, unless_faulty = [], []
    return Comparison(
        prediction=prediction, broken=tuple(broken), unless_faulty=tuple(unless_faulty), open=tuple(open_)
    )


def _compare_losses(expected: LossExpectation, seen: ObservedRun, broken: list[str], open_: list[str]) -> None:
    """Compare the losses with the prediction.

    Where losses could not be decided, the clause on them says so; that none was found then says
    nothing.
    """
    decided = EXPECTED_BY["loss.committed"] not in seen.unknown_kinds
    committed_lost = seen.committed_lost + seen.own_committed_lost
    uncommitted_lost = seen.uncommitted_lost + seen.own_uncommitted_lost
    for what, wanted, lost, own in (
        ("committed", expected.committed, committed_lost, seen.own_committed_lost),
        ("uncommitted", expected.uncommitted, uncommitted_lost, seen.own_uncommitted_lost),
    ):
        if wanted == "none" and lost:
            yours = f", {own:,} of them yours" if own else ""
            broken.append(f"predicted no loss of {what} records, seen {lost:,} lost{yours}")
        if wanted == "some" and not lost and decided:
            open_.append(f"predicted a loss of {what} records, but none was lost: the run did not show it")
    if expected.committed == "none" and (vanished := sum(seen.vanished.values())):
        broken.append(f"predicted no loss of committed records, but {vanished:,} that a consumer had read vanished")
    if expected.cause is not None and expected.cause != "uncommitted-at-failover":
        of_cause = Counter(seen.causes) + Counter(seen.vanished) + Counter(seen.commits)
        others = {cause: count for cause, count in of_cause.items() if cause != expected.cause}
        if others:
            found = ", ".join(f"{count:,} by {cause}" for cause, count in sorted(others.items()))
            broken.append(f"predicted every committed loss to be {expected.cause}, seen {found}")
    broken += [
        f"predicted no loss of committed records on the topic {topic}, seen {lost:,} lost"
        for topic in expected.none_on
        if (lost := seen.lost_on.get(topic, 0))
    ]
    at_least = expected.at_least or 0
    counted = uncommitted_lost if expected.cause == "uncommitted-at-failover" else committed_lost
    if expected.committed == "any" and expected.uncommitted == "any" and expected.cause is None:
        counted = committed_lost + uncommitted_lost
    is_said = not counted and "some" in (expected.committed, expected.uncommitted)
    if counted < at_least and decided and not is_said:
        open_.append(f"predicted a loss of at least {at_least:,} records, seen {counted:,}: the run did not show it")


def _compare_acks(expected: LossExpectation, seen: ObservedRun, broken: list[str], open_: list[str]) -> None:
    """Compare the lost records of each acks with the prediction."""
    for acks, wanted in expected.acks.items():
        lost = seen.lost_by_acks.get(acks)
        if wanted == "none" and lost:
            broken.append(f"predicted no loss of records sent with acks={acks}, seen {lost:,} lost")
        elif wanted == "none" and seen.facts.get(f"acked-with-acks-{acks}") == 0:
            open_.append(
                f"predicted no loss of records sent with acks={acks}, but none was acked: nothing could be lost"
            )
        elif wanted == "some" and lost == 0:
            open_.append(f"predicted a loss of records sent with acks={acks}, but the run did not show one")
        elif wanted != "any" and lost is None:
            open_.append(f"how many records sent with acks={acks} were lost is not known")


def _compare_commits(expected: LossExpectation, seen: ObservedRun, broken: list[str], open_: list[str]) -> None:
    """Compare the commits that groups did not get back with the prediction."""
    lost = seen.kinds.get(EXPECTED_BY["loss.commits"], 0)
    if expected.commits == "none" and lost:
        broken.append(f"predicted that every group gets back its acked commits, seen {lost:,} lost")
    if expected.commits != "any" and not lost:
        if not seen.acked_commits:
            open_.append("no commit of a group was acked: no group had a commit to lose")
        elif expected.commits == "some" and EXPECTED_BY["loss.commits"] not in seen.unknown_kinds:
            open_.append("predicted a loss of acked commits, but none was lost: the run did not show it")


def _compare_regressions(prediction: Prediction, seen: ObservedRun, broken: list[str], open_: list[str]) -> None:
    count = seen.kinds.get(EXPECTED_BY["hw_regression"], 0)
    wanted = prediction.hw_regression
    if wanted == "none" and count:
        broken.append(f"predicted that the HW never goes back, but {_lower_answers(count)}")
    elif wanted == "some" and not count and EXPECTED_BY["hw_regression"] not in seen.unknown_kinds:
        open_.append("predicted that the HW goes back, but it did not: the run did not show it")


def _lower_answers(count: int) -> str:
    """Say how many items of a HW regression there are: each is an answer of a leader to a client."""
    return f"{plural(count, 'answer')} had a lower HW than an earlier one"


def _compare_elr(prediction: Prediction, seen: ObservedRun, unless_faulty: list[str], open_: list[str]) -> None:
    wanted = prediction.elected_from_elr
    if wanted is None:
        return
    if seen.elected_from_elr is None:
        open_.append(
            "whether a leader was elected from the ELR is unknown: the metadata timeline is missing or damaged"
        )
    elif wanted and not seen.elected_from_elr:
        unless_faulty.append("predicted an election from the ELR, but the metadata log has none")


def _compare_facts(prediction: Prediction, seen: ObservedRun, open_: list[str]) -> None:
    """Compare the coverage facts with the prediction.

    A predicted fact that never occurred leaves the run without meaning, whatever else it shows. The
    same holds for a fact that must not occur, where it had no chance to.
    """
    facts = seen.facts
    for asked in (*prediction.exercised, *prediction.never):
        if asked not in facts:
            known = f"known are {', '.join(sorted(facts))}" if facts else "the metadata timeline is missing"
            open_.append(f"the prediction asks for the coverage fact {asked}, which is not known of this run: {known}")
    open_ += [
        f"predicted {fact}, but there were none: the run did not show it"
        for fact in prediction.exercised
        if facts.get(fact) == 0
    ]
    open_ += [
        f"predicted no {fact}, but there was no {' or '.join(lacking)}, so there could be none: the run did not show it"
        for fact in prediction.never
        if facts.get(fact) == 0 and (lacking := missing_needs(fact, facts))
    ]


def prediction_sentence(prediction: Prediction) -> str:
    """Return the prediction as one sentence."""
    words = {"none": "no", "some": "some", "any": None}
    parts = []
    for what, wanted in (("committed", prediction.loss.committed), ("uncommitted", prediction.loss.uncommitted)):
        if words[wanted] is not None:
            parts.append(f"{words[wanted]} loss of {what} records")
    parts += [
        f"{words[wanted]} loss of records sent with acks={acks}"
        for acks, wanted in sorted(prediction.loss.acks.items())
        if words[wanted] is not None
    ]
    if words[prediction.loss.commits] is not None:
        parts.append(f"{words[prediction.loss.commits]} loss of acked commits of groups")
    if prediction.loss.at_least:
        parts.append(f"at least {prediction.loss.at_least:,} of them")
    if prediction.loss.cause:
        parts.append(f"cause {prediction.loss.cause}")
    if prediction.loss.none_on:
        parts.append(f"none of them on {', '.join(prediction.loss.none_on)}")
    if prediction.hw_regression != "any":
        parts.append("the HW goes back" if prediction.hw_regression == "some" else "the HW never goes back")
    if prediction.elected_from_elr is not None:
        parts.append(("an" if prediction.elected_from_elr else "no") + " election from the ELR")
    if prediction.anomalies == "none":
        keys = {kind.many: kind.allowed_by for kind in ANOMALIES.values() if kind.allowed_by is not None}
        allowed = [many for many, key in keys.items() if getattr(prediction, key) == "any"]
        parts.append(" but ".join(["no other anomaly", *allowed]))
    parts += prediction.exercised
    parts += [f"no {fact}" for fact in prediction.never]
    parts += [f"{name} holds" for name in prediction.holds]
    parts += unavailability_phrases(prediction)
    return f"predicted: {', '.join(parts) or 'nothing in particular'} ({prediction.clause})"


_KNOWN = "known of this release: "


def known_bug_of(why: Sequence[str]) -> str | None:
    """Return the bug that one of a verdict's sentences names as known."""
    return next((sentence.removeprefix(_KNOWN) for sentence in why if sentence.startswith(_KNOWN)), None)


def observed_sentence(seen: ObservedRun, acks_0: str | None) -> str:
    """Return what was seen as one sentence.

    `acks_0` says what became of the records that no broker acks.
    """
    parts = []
    found = seen.committed_lost + seen.uncommitted_lost
    acked = seen.acked
    of_acked = f"{acked or 0:,} acked records" + (" of Ebbtide's producers" if seen.own_acked else "")
    if acked is None:
        parts.append("it is not known how many records were acked, or how many of them were lost")
    elif EXPECTED_BY["loss.committed"] in seen.unknown_kinds:
        at_least = f", at least {found:,}" if found else ""
        parts.append(f"it is not known how many of {of_acked} were lost{at_least}")
    elif not found:
        parts.append(f"of {of_acked} none was lost")
    else:
        causes = ", ".join(f"{count:,} by {cause}" for cause, count in sorted(seen.causes.items()))
        committed = f"{seen.committed_lost:,} committed" + (f" ({causes})" if causes else "")
        parts.append(f"of {of_acked} {committed} and {seen.uncommitted_lost:,} uncommitted were lost")
    if seen.own_acked:
        lost = f"{seen.own_committed_lost:,} committed and {seen.own_uncommitted_lost:,} uncommitted were"
        any_lost = seen.own_committed_lost or seen.own_uncommitted_lost
        parts.append(f"of {seen.own_acked:,} acked records of your producers {lost if any_lost else 'none was'} lost")
    if acks_0 is not None:
        parts.append(acks_0)
    commits = seen.kinds.get(EXPECTED_BY["loss.commits"], 0)
    if seen.acked_commits and (commits or EXPECTED_BY["loss.commits"] not in seen.unknown_kinds):
        lost = f"{commits:,} {'was' if commits == 1 else 'were'}" if commits else "none was"
        parts.append(f"of {seen.acked_commits:,} acked commits of groups {lost} lost")
    count = seen.kinds.get(EXPECTED_BY["hw_regression"], 0)
    if count or EXPECTED_BY["hw_regression"] not in seen.unknown_kinds:
        parts.append(f"the HW went back ({_lower_answers(count)})" if count else "the HW never went back")
    if seen.elected_from_elr:
        parts.append(f"{seen.elected_from_elr} election{'s' if seen.elected_from_elr != 1 else ''} from the ELR")
    told = OWN_PREDICTION if not seen.acked_commits else OWN_PREDICTION | {EXPECTED_BY["loss.commits"]}
    others = {kind: count for kind, count in seen.kinds.items() if count and kind not in told}
    parts += [in_words(kind, count) for kind, count in sorted(others.items())]
    return f"seen: {', '.join(parts)}"


def prediction_reasons(comparison: Comparison | None, outcome: Outcome, violated: Set[str]) -> Iterator[str]:
    """Yield what was predicted, and the known bug behind a contradiction.

    The bug is named only where nothing else was broken.
    """
    if comparison is None or comparison.prediction is None:
        return
    yield prediction_sentence(comparison.prediction)
    known_bug = comparison.prediction.known_bug
    more = comparison.broken or comparison.unless_faulty or violated - {*comparison.prediction.violates}
    if outcome == "contradicted" and known_bug is not None and not more:
        yield f"{_KNOWN}{known_bug}"
