"""The scenarios by which bench.advise_remedies shows that a set of changes saves an event."""

from __future__ import annotations

from pathlib import Path

from bench.advise_remedies import SETS, pair_of
from ebbtide.scenario.parse import parse

PAIR = next(one for one in SETS if one.rf == 2)


def test_a_pair_is_the_same_event_with_and_without_the_changes(tmp_path: Path) -> None:
    paths = pair_of(tmp_path, PAIR, "power-1-worst")
    without, after = (parse(path.read_text(), file=str(path)) for path in paths)
    predicted = [one.predictions[0].loss for one in (without, after)]
    assert [one is not None and one.committed for one in predicted] == ["some", "none"]
    assert without.cluster.features != after.cluster.features
    assert without.steps[0] == after.steps[0]
