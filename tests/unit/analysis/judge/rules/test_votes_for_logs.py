"""no-vote-for-a-shorter-log: the candidate has the voter truncate to the end of the log that the candidate had."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.quorum import no_vote_for_a_shorter_log as rule

VOTED = (
    "Vote request VoteRequestData(voterId=100, replicaEpoch=3, replicaId=102, replicaDirectoryId=A,"
    " voterDirectoryId=B, lastOffsetEpoch=2, lastOffset=41, preVote=false)])]) with epoch 3 is granted"
)
OF_OLD = "Vote request V(candidateEpoch=3, candidateId=102, lastOffsetEpoch=2, lastOffset=41) with epoch 3 is granted"
FOLLOWS = "Completed transition to FollowerState(fetchTimeoutMs=2000, epoch=3, leader=102, votedKey=x) from U(epoch=3)"
CUT = "Truncated to offset 41 from Fetch response from leader 102"


def status(folder: Path, *says: str) -> str:
    """What the clause finds in the log of a controller."""
    lines = [f"node=controller-100 at={20 + at} says={one.replace(' ', '_')}" for at, one in enumerate(says)]
    text = f"logs: {'; '.join(lines)}"
    return status_of(rule, folder, text)


@pytest.mark.parametrize("vote", [VOTED, OF_OLD], ids=["4.x", "3.x"])
def test_a_voter_that_had_all_of_the_candidates_log_and_more_must_not_vote(tmp_path: Path, vote: str) -> None:
    assert status(tmp_path, vote, FOLLOWS, CUT) == "violated"


@pytest.mark.parametrize(
    "says",
    [
        (VOTED, FOLLOWS),
        (VOTED, FOLLOWS, CUT.replace("41", "40")),  # the candidate had records of a newer epoch
        (VOTED, FOLLOWS, CUT.replace("102", "101")),
        (VOTED, FOLLOWS.replace("epoch=3", "epoch=5"), CUT),  # it had grown in an epoch between
        (VOTED, FOLLOWS.replace("epoch=3", "epoch=4"), FOLLOWS, CUT),
    ],
)
def test_a_voter_may_have_other_records_of_an_older_epoch(tmp_path: Path, says: tuple[str, ...]) -> None:
    assert status(tmp_path, *says) == "holds"


@pytest.mark.parametrize("vote", [VOTED.replace("preVote=false", "preVote=true"), VOTED.replace("granted", "rejected")])
def test_only_a_vote_counts(tmp_path: Path, vote: str) -> None:
    assert status(tmp_path, vote, FOLLOWS, CUT) == "not-exercised"
