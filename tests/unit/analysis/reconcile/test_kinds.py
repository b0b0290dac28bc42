"""Each kind of anomaly: its cases for and against, and when nobody can tell (`anomaly_kinds`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from anomaly_kinds import build_setting, modules, passed_over, settings, unknown_cases
from real_records import OF_GROUPS, unpack_record
from reconcile_cases import Setting, items_of
from reconcile_rows import sum_up
from reconcile_together import Make, record_of
from records import RecordBuilder, as_record

from analysis.judge.rules.groups.positions import LeftOut
from analysis.judge.rules.registry import ANOMALIES
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record

pytestmark = pytest.mark.spark

KINDS = {kind.KIND: kind for kind in modules()}
SETTINGS = settings()
UNKNOWN = unknown_cases()

MISSING = {
    "scenario.toml": "scenario.toml is missing or cannot be read, so which consumers are a group is not known",
    "clients": "clients is missing, so where resets moved a group is not known",
}


def without(missing: str) -> Make:
    """A record that lacks what it is called by, if it is one of `MISSING`."""

    def make(folder: Path) -> Record:
        record = record_of(passed_over.passing)(folder)
        if missing in MISSING:
            (folder / missing).rename(folder.with_name(f"{folder.name}-elsewhere"))
        return record

    return make


RECORDS: dict[object, Make] = {setting: record_of(partial(build_setting, setting)) for setting in SETTINGS}
RECORDS |= {name: record_of(build) for name, (_, build, _) in UNKNOWN.items()}
RECORDS |= {name: without(name) for name in (*MISSING, "whole")}
RECORDS["late"] = lambda folder: as_record(unpack_record("group-at-latest-4.3.1", folder, OF_GROUPS))


def test_every_kind_has_cases_a_rule_in_plain_python_and_planted_items() -> None:
    assert KINDS.keys() == {one.name for one in ANOMALIES}
    for kind in KINDS.values():
        assert hasattr(kind, "found_in") != hasattr(kind, "found_in_record")
        assert kind.CASES
        assert kind.plant


@pytest.mark.parametrize(
    ("setting", "kind", "name"),
    [
        pytest.param(setting, *case, id=f"{setting.__name__}, {': '.join(case)}")
        for setting, of_setting in SETTINGS.items()
        for case in of_setting
    ],
)
def test_a_case_has_exactly_these_items(
    found: Mapping[object, Reconciliation], setting: Setting, kind: str, name: str
) -> None:
    items = items_of(found[setting], SETTINGS[setting].index((kind, name)))
    assert items == KINDS[kind].CASES[setting][name][1]


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_kind_is_unknown_and_has_no_item_if(found: Mapping[object, Reconciliation], name: str) -> None:
    kind, _, why = UNKNOWN[name]
    assert found[name].unknown[kind].startswith(why)
    assert kind not in {one.kind for one in found[name].anomalies}


@pytest.mark.parametrize(("missing", "asks"), [(0, False), (2, True)])
def test_the_rule_is_asked_only_if_a_group_left_something_out(tmp_path: Path, missing: int, asks: bool) -> None:
    begun = passed_over.reads(passed_over.log(passed_over.group(RecordBuilder(), 1, 2)), 0, 1, member=1)
    builder = passed_over.reads(begun, 2 + missing, 4, member=2)
    record = as_record(builder.write(tmp_path / "run"), builder.manifest())
    assert (LeftOut in sum_up(record, tmp_path).answers.possible) == asks


@pytest.mark.parametrize("name", MISSING)
def test_without_members_or_their_resets_it_is_unknown(found: Mapping[object, Reconciliation], name: str) -> None:
    assert found[name].unknown[passed_over.KIND] == MISSING[name]
    assert passed_over.KIND not in found["whole"].unknown


def test_a_group_at_latest_that_found_partitions_late_passed_over_306_records(
    found: Mapping[object, Reconciliation],
) -> None:
    """Kafka 4.3.1: the topic grew while its producer sent, and the group reset its new positions to the end."""
    late = found["late"]
    assert sum(one.count for one in late.anomalies if one.kind == passed_over.KIND) == 306
    assert passed_over.KIND not in late.unknown
