"""A controller that starts again knows the epoch, the vote and the leader that it had written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.quorum import vote_outlives_a_restart as rule

VOTED = "UnattachedState(epoch={},_leaderId=OptionalInt.empty,_votedKey=Optional[ReplicaKey(id=101)],_v)"
NOTHING = "UnattachedState(epoch={},_leaderId=OptionalInt.empty,_votedKey=Optional.empty,_v)"
LED = "FollowerState(fetchTimeoutMs=2000,_epoch={},_leader=102,_v)"
RESIGNED = "ResignedState(localId=100,_epoch={},_v)"


def status(folder: Path, before: str, start: str, more: str = "") -> str:
    says = (
        f"at=20 says=Completed_transition_to_{before}_from_X",
        f"at=40 says=Completed_transition_to_{start}_from_null",
    )
    logs = ";\n  ".join(f"node=controller-100 {one}" for one in says)
    return status_of(rule, folder, f"{more}logs: {logs}")


@pytest.mark.parametrize(
    ("before", "start", "found"),
    [
        (VOTED.format(3), NOTHING.format(3), "violated"),
        (LED.format(3), NOTHING.format(3), "violated"),
        (LED.format(3), VOTED.format(2), "violated"),
        (VOTED.format(3), VOTED.format(3), "holds"),
        (LED.format(3), LED.format(3), "holds"),
        (NOTHING.format(3), NOTHING.format(3), "holds"),
        (VOTED.format(3), NOTHING.format(4), "holds"),  # its log has a newer epoch
        (LED.format(3), RESIGNED.format(3), "not-exercised"),
    ],
)
def test_what_was_written_down_is_known_after_a_restart(tmp_path: Path, before: str, start: str, found: str) -> None:
    assert status(tmp_path, before, start) == found


@pytest.mark.parametrize(
    ("step", "found"), [("kill", "violated"), ("power-loss", "violated"), ("wipe-disk", "not-exercised")]
)
def test_only_a_step_on_its_disk_excuses_it(tmp_path: Path, step: str, found: str) -> None:
    more = f"steps: step={step} nodes=100 at=30\n"
    assert status(tmp_path, VOTED.format(3), NOTHING.format(3), more) == found
