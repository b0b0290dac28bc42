"""The conformance vectors against the specification, and the command that compares them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from analysis.spec.partition import Outcome, Partition
from analysis.spec.variants import VARIANTS, cluster_for, protocol_for
from analysis.spec.vector_file import Vector, load
from analysis.spec.vectors import agreement, compare, releases_of
from ebbtide.errors import ExitCode, Problems, UsageError
from harness.cli.main import main

ELR = Path(__file__).parent / "vectors" / "elr.jsonl"
VECTORS = load(ELR)


RELEASES = sorted({release for vector in VECTORS for release in releases_of(vector)})


@pytest.mark.parametrize("release", RELEASES)
def test_every_vector_of_a_release_is_what_its_variant_does(release: str) -> None:
    spoken_of = [vector for vector in VECTORS if release in releases_of(vector)]
    assert [difference for vector in spoken_of for difference in compare(vector, release)] == []


def test_all_vectors_and_all_releases_they_were_executed_on_are_compared() -> None:
    tallies, _ = agreement(VECTORS)
    assert len(VECTORS) == 210
    assert sum(tally.vectors for tally in tallies) == sum(len(releases_of(vector)) for vector in VECTORS) == 1758


def test_a_release_that_differs_is_held_to_its_own_behaviour() -> None:
    fingerprint = next(vector for vector in VECTORS if vector.id == "der-lkl-not-unfenced")
    assert compare(fingerprint, "4.0.2") == []
    changed = {difference.field for difference in compare(_as_of(fingerprint, "4.0.2"), "4.3.1")}
    assert {"after.leader", "after.isr"} <= changed


def _as_of(vector: Vector, release: str) -> Vector:
    """The vector that expects on 4.3.1 what `release` does."""
    return msgspec.structs.replace(vector, differs={"4.3.1": vector.differs[release]})


@pytest.mark.parametrize("older", ["elr_40", "elr_410", "elr_41", "strict_min_isr_39", "kip903", "kraft", "kip966"])
def test_the_vectors_tell_every_other_variant_from_the_newest_one(older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = VARIANTS["elr_43"]
    assert all(not compare(vector, "4.4.0") for vector in VECTORS)
    monkeypatch.setattr("analysis.spec.vectors.protocol_for", lambda *_: VARIANTS[older])
    assert protocol_for("4.4.0", {}) is newest
    assert any(compare(vector, "4.4.0") for vector in VECTORS)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("isr_that_shrank", lambda self, asked, written: frozenset(range(99))),
        ("provisional_elr", lambda self, partition, isr, target: partition.elr - isr),
        ("may_elect_last_known", lambda self, partition, live: False),
        ("may_complete", lambda self, *_: True),
        ("is_clean", lambda self, *_: True),
        ("min_isr_clears_elr", lambda self, *_: False),
        ("may_join", lambda self, follower: True),
        ("is_under_min_isr", lambda self, *_: False),
        ("ineligible", lambda self, *_: False),
    ],
)
def test_a_broken_rule_is_seen(rule: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(VARIANTS["elr_43"]), rule, broken, raising=True)
    assert any(compare(vector, "4.4.0") for vector in VECTORS)


@pytest.mark.parametrize(
    ("kafka", "variant"),
    [
        ("3.3.2", "kraft"),
        ("3.5.2", "kip903"),
        ("3.6.0", "kip903_36"),
        ("3.7.2", "strict_min_isr"),
        ("3.8.1", "strict_min_isr_38"),
        ("3.9.1", "strict_min_isr_39"),
        ("4.0.0-rc1", "elr_40"),
        ("4.0.2", "elr_40"),
        ("4.1.0", "elr_410"),
        ("4.1.1", "elr_41"),
        ("4.2.1", "elr_41"),
        ("4.3.1", "elr_43"),
        ("4.4.0", "elr_43"),
    ],
)
def test_a_release_has_its_variant(kafka: str, variant: str) -> None:
    assert protocol_for(kafka, {}).name == variant


def test_the_elr_is_refused_where_the_code_does_not_know_it() -> None:
    with pytest.raises(UsageError, match="feature level"):
        protocol_for("3.9.1", {"eligible.leader.replicas.version": 1})
    with pytest.raises(UsageError, match="feature level"):
        protocol_for("4.3.1", {"eligible.leader.replicas.version": 1, "metadata.version": 22})
    for unknown in ("2.8.1", "5.0.0-rc1", "trunk"):
        with pytest.raises(UsageError, match="does not know this release"):
            protocol_for(unknown, {})


def test_all_mistakes_of_a_file_are_reported_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ELR.read_text().splitlines()
    first = json.loads(lines[0])
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(
        "\n".join(
            [
                lines[0],
                "{",
                json.dumps({**first, "id": "no-layer", "layer": "broker"}),
                json.dumps({**first, "id": "no-before", "before": {}}),
                lines[0],
                json.dumps({**first, "id": "old", "verified_on": ["2.8.0"]}),
            ]
        )
    )
    with pytest.raises(Problems) as caught:
        load(damaged)
    assert [problem.where for problem in caught.value.problems] == [f"{damaged}:{line}" for line in (2, 3, 4, 5, 6)]
    assert main(["spec", "vectors", str(damaged)]) == ExitCode.USAGE
    assert "damaged.jsonl:4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scope", "value", "says"),
    [
        ("broker:x", "1", "matching regex"),
        ("brokers", "1", "matching regex"),
        ("topic", None, "cannot be removed"),
        ("broker:2", "two", "not a number"),
        ("cluster", "", "not a number"),
    ],
)
def test_a_min_isr_that_no_event_can_set_is_refused(scope: str, value: str | None, says: str, tmp_path: Path) -> None:
    vector = next(json.loads(line) for line in ELR.read_text().splitlines() if "broker-level-rejected" in line)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(json.dumps({**vector, "event": {**vector["event"], "scope": scope, "value": value}}))
    with pytest.raises(Problems) as caught:
        load(damaged)
    assert says in caught.value.problems[0].what


def test_a_brokers_min_isr_is_refused_with_the_elr_and_changes_nothing_without() -> None:
    partition = Partition((1, 2, 4), frozenset({2}), frozenset({1}), leader=2)
    for protocol in VARIANTS.values():
        for elr, cluster_removal in ((True, "INVALID_CONFIG"), (False, "NONE")):
            known = cluster_for("4.4.0", {}, (1, 2, 4), min_isr=2)._replace(elr=elr)
            for value in (1, None):
                done = protocol.set_broker_min_isr(partition, known, value)
                assert done == Outcome(partition, known, cluster_removal)
            assert protocol.set_broker_min_isr(partition, known, 0).error == "INVALID_CONFIG"
            removed = protocol.set_min_isr(partition, known, None, topic=False)
            assert (removed.error, removed.cluster.min_isr) == (cluster_removal, 2 if elr else 1)


def test_the_command_shows_the_agreement_and_for_each_vector_before_what_kafka_does_and_the_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spec", "vectors", str(ELR)]) == ExitCode.AS_PREDICTED
    assert "210 vectors, 1758 of 1758 comparisons agree" in capsys.readouterr().out
    first = json.loads(ELR.read_text().splitlines()[0])
    first["expected"]["after"]["elr"] = [0, 1]
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps(first))
    assert main(["spec", "vectors", str(wrong), "--kafka", "4.3.1"]) == ExitCode.CONTRADICTED
    out = capsys.readouterr().out
    assert "cc-register-epoch-match-is-clean: registerBroker (controller)" in out
    rows = [line.split("  ") for line in out.splitlines()]
    assert [[cell.strip() for cell in row if cell] for row in rows if row[0] in ("field", "after.elr")] == [
        ["field", "before", "Kafka 4.3.1", "elr-43"],
        ["after.elr", "[1]", "[0, 1]", "[1]"],
    ]
    assert out.endswith("1 vector differs:\n  cc-register-epoch-match-is-clean\n")
    assert main(["spec", "vectors", str(wrong), "--kafka", "4.3.1", "--json"]) == ExitCode.CONTRADICTED
    [found] = json.loads(capsys.readouterr().out)["differences"]
    assert (found["field"], found["expected"], found["got"]) == ("after.elr", [0, 1], [1])
    assert main(["spec", "vectors", str(wrong), "--kafka", "3.4.1"]) == ExitCode.USAGE
    assert main(["spec", "vectors", str(tmp_path / "absent.jsonl")]) == ExitCode.USAGE
