"""ELR and LastKnownElr of KIP-966's text, from the records that every release writes."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest

from ebbtide.kraft.kip_elr import KipElr, kip_elr
from ebbtide.kraft.quorum import QuorumLogs
from ebbtide.logs.segments import TopicPartition

SHRUNK = (build.change("T", 0, isr=(1, 3)), build.change("T", 0, isr=(1,)))
LEADERLESS = build.change("T", 0, leader=-1, isr=())


def stops(broker: int) -> bytes:
    return build.registration_change(broker, 10 + broker, stopping=1)


def returns(broker: int) -> bytes:
    return build.register(broker, 20 + broker, "J")


def sets(folder: Path, *messages: bytes) -> KipElr:
    start = (
        build.topic("t", "T"),
        build.partition("T", 0, (1, 2, 3), 1),
        build.config(2, "t", "min.insync.replicas", "2"),
        *(build.register(one, 10 + one, "I", fenced=False) for one in (1, 2, 3)),
    )
    build.write_log(folder, build.metadata_batch(0, *start, *messages))
    return kip_elr(QuorumLogs({100: folder}).poll().history(), TopicPartition("t", 0))


def is_(elr: set[int], last_known: set[int]) -> KipElr:
    return KipElr(elr=frozenset(elr), last_known_elr=frozenset(last_known))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((build.change("T", 0, isr=(1, 3)),), is_(set(), set())),
        (SHRUNK, is_({3}, set())),
        ((*SHRUNK, LEADERLESS), is_({1, 3}, set())),
        ((*SHRUNK, build.change("T", 0, leader=-1)), is_({1, 3}, set())),
        ((*SHRUNK, LEADERLESS, returns(3)), is_({1}, {3})),
        ((*SHRUNK, LEADERLESS, stops(3), returns(3)), is_({1, 3}, set())),
        ((*SHRUNK, LEADERLESS, returns(3), returns(1)), is_(set(), {1, 3})),
        ((*SHRUNK, LEADERLESS, returns(2)), is_({1, 3}, set())),
        ((*SHRUNK, returns(3), build.change("T", 0, isr=(1, 2))), is_(set(), set())),
        ((*SHRUNK, LEADERLESS, build.config(2, "t", "min.insync.replicas", "1")), is_({1, 3}, set())),
        ((*SHRUNK, build.config(2, "t", "min.insync.replicas", "1")), is_(set(), set())),
        ((*SHRUNK, LEADERLESS, returns(3), build.clear_elr("t")), is_({1}, {3})),
    ],
    ids=[
        "at min ISR both are empty",
        "who leaves an ISR below min ISR enters the ELR",
        "the last leader does too",
        "also where the release keeps it in the ISR",
        "an unclean return moves a member to LastKnownElr",
        "a clean return does not",
        "both may move",
        "a broker that was not in the ELR does not enter LastKnownElr",
        "an ISR at min ISR empties both",
        "a min ISR above the ISR keeps the ELR",
        "a min ISR at the ISR empties it",
        "the release's ClearElrRecord changes neither",
    ],
)
def test_the_sets_follow_the_text(tmp_path: Path, messages: tuple[bytes, ...], expected: KipElr) -> None:
    assert sets(tmp_path / "log", *messages) == expected
