"""Random walks through the controller's events keep the invariants, for every variant."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from quick import quick_first
from spec.walker import FEATURE_MOVE, MOVES, check, start, step, walk

from analysis.spec import VARIANTS, Protocol

WALKS = [1_000, 10_000]
STEPS = 20


@pytest.mark.parametrize("count", quick_first(WALKS))
@pytest.mark.parametrize("variant", VARIANTS)
def test_random_walks_keep_the_invariants(variant: str, count: int) -> None:
    _walks(VARIANTS[variant], count)


class Walk(RuleBasedStateMachine):
    """A walk whose events Hypothesis draws, so that one that fails shrinks to the events that it takes."""

    protocol: Protocol

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        """A healthy partition."""
        self.features_changed = False
        self.partition, self.cluster = start(self.protocol, Random(seed))

    @rule(move=st.sampled_from(sorted({*MOVES, FEATURE_MOVE})), arguments=st.integers(0, 2**16))
    def event(self, move: str, arguments: int) -> None:
        """One event, its arguments drawn from the seed `arguments`."""
        self.features_changed |= move == FEATURE_MOVE
        did, outcome = step(self.protocol, self.partition, self.cluster, move, Random(arguments))
        check(self.protocol, self.partition, did, outcome, features_changed=self.features_changed)
        self.partition, self.cluster = outcome.partition, outcome.cluster


@pytest.mark.parametrize("variant", VARIANTS)
def test_drawn_walks_keep_the_invariants(variant: str) -> None:
    machine = type("WalkOf", (Walk,), {"protocol": VARIANTS[variant]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


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
