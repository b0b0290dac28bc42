"""Random walks through the controller's events keep the invariants, for every variant."""

from __future__ import annotations

import pytest
from quick import quick_first
from spec.walker import walk

from analysis.spec import VARIANTS, Protocol

WALKS = [1_000, 10_000]
STEPS = 20


@pytest.mark.parametrize("count", quick_first(WALKS))
@pytest.mark.parametrize("variant", VARIANTS)
def test_random_walks_keep_the_invariants(variant: str, count: int) -> None:
    _walks(VARIANTS[variant], count)


@pytest.mark.parametrize(
    ("variant", "defect", "replacement"),
    [
        ("elr_43", "is_clean", lambda self, *_: True),
        ("elr_43", "leave_isr_and_elr", lambda self, partition, *_: partition),
        ("elr_43", "provisional_elr", lambda self, partition, isr, target: partition.elr | partition.isr),
        ("elr_43", "remember", lambda self, partition, *_: (*partition.last_known, 1)),
        ("kip966", "min_isr_clears_elr", lambda self, *_: False),
        ("kip966", "may_complete", lambda self, *_: True),
        ("kip966", "remember_leader", lambda self, partition, leader: 1),
        ("kip903", "alter_partition_error", lambda self, *_: ""),
        ("kraft", "_without_broker", lambda self, partition, cluster, broker, **_: partition._replace(isr=frozenset())),
    ],
)
def test_a_walk_finds_a_planted_defect(
    variant: str, defect: str, replacement: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(VARIANTS[variant]), defect, replacement)
    with pytest.raises((AssertionError, ValueError)):
        _walks(VARIANTS[variant], WALKS[0])


def _walks(protocol: Protocol, count: int) -> None:
    """Every other walk changes features, which not every invariant outlasts."""
    for seed in range(count):
        walk(protocol, seed, STEPS, features=seed % 2 == 1)
