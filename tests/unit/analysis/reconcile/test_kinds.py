"""Each kind with a module in `anomaly_kinds`: its cases, and when nobody can tell."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from anomaly_kinds import modules, passed_over
from pyspark.sql import SparkSession
from real_records import OF_GROUPS, unpack_record
from reconcile_cases import Expected, items_of, reconcile_cases
from reconcile_rows import sum_up
from records import RecordBuilder, as_record

from analysis.items import reconcile, reconcile_all
from analysis.judge.rules.groups.positions import LeftOut
from analysis.judge.rules.registry import ANOMALIES
from analysis.reconcile.model import Reconciliation

pytestmark = pytest.mark.spark

UNKNOWN = [(module.KIND, *case) for module in modules() for case in module.UNKNOWN.values()]


MISSING = {
    "scenario.toml": "scenario.toml is missing or cannot be read, so which consumers are a group is not known",
    "clients": "clients is missing, so where resets moved a group is not known",
}


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reconciliation]:
    """The record of each unknown case; one that lacks each of `MISSING`, and `whole`, which lacks nothing."""
    folder = tmp_path_factory.mktemp("kinds")
    builders = {f"{kind}: {why}": build() for kind, build, why in UNKNOWN}
    builders |= {name: passed_over.passing() for name in (*MISSING, "whole")}
    records = []
    for number, (name, builder) in enumerate(builders.items()):
        record = builder.write(folder / str(number))
        if name in MISSING:
            (record / name).rename(folder / f"{number}-elsewhere")
        records.append(as_record(record, builder.manifest()))
    return dict(zip(builders, reconcile_all(spark, records), strict=True))


@pytest.mark.parametrize("kind", modules(), ids=lambda module: str(module.KIND))
def test_a_case_has_exactly_these_items(spark: SparkSession, tmp_path: Path, kind: ModuleType) -> None:
    assert kind.KIND in {one.name for one in ANOMALIES}
    found = reconcile_cases(spark, tmp_path, RecordBuilder().coordinated_by(1), kind.CASES)
    for number, (name, (_, expected)) in enumerate(kind.CASES.items()):
        items: Expected = items_of(found, number)
        looked_at = {kind.KIND, *expected}
        assert {one: items.get(one) for one in looked_at} == {one: expected.get(one) for one in looked_at}, name


@pytest.mark.parametrize(("kind", "why"), [(kind, why) for kind, _, why in UNKNOWN])
def test_a_kind_is_unknown_if(judged: dict[str, Reconciliation], kind: str, why: str) -> None:
    assert judged[f"{kind}: {why}"].unknown[kind] == why


@pytest.mark.parametrize(("missing", "asks"), [(0, False), (2, True)])
def test_the_rule_is_asked_only_if_a_group_left_something_out(tmp_path: Path, missing: int, asks: bool) -> None:
    begun = passed_over.reads(passed_over.log(passed_over.group(RecordBuilder(), 1, 2)), 0, 1, member=1)
    builder = passed_over.reads(begun, 2 + missing, 4, member=2)
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    assert (LeftOut in sum_up(record, tmp_path).answers.possible) == asks


@pytest.mark.parametrize("name", MISSING)
def test_without_members_or_their_resets_it_is_unknown(judged: dict[str, Reconciliation], name: str) -> None:
    assert judged[name].unknown[passed_over.KIND] == MISSING[name]
    assert passed_over.KIND not in judged["whole"].unknown


def test_a_group_at_latest_that_found_partitions_late_passed_over_306_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Kafka 4.3.1: the topic grew while its producer sent, and the group reset its new positions to the end."""
    record = as_record(unpack_record("group-at-latest-4.3.1", tmp_path, OF_GROUPS))
    found = reconcile(spark, record)
    assert sum(one.count for one in found.anomalies if one.kind == passed_over.KIND) == 306
    assert passed_over.KIND not in found.unknown
