"""Late requests: what a scenario may ask, and what the proof says of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scenario_problems import problems

from cluster.wire.messages import Arm, Release, WireEvent
from ebbtide.record.folder import RecordFolder
from ebbtide.scenario.roles import CLIENTS
from faults import wire
from faults.wire import WireFaults, WireRule

HOLD = 'step = "hold-request"\ntrigger = { acked = 1 }\ntarget = "clients"\napi = "Produce"\nlate = true\n'
RELEASE = 'step = "release"\ntrigger = { after = "1s" }'


class Wire:
    """Stands for the proxies: they answer each command at once, and then say what a test wants."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.todo: list[tuple[int, WireEvent]] = []

    def send(self, node: int, command: Arm | Release) -> None:
        self.sent.append(command)
        rule = command.rule.number if isinstance(command, Arm) else command.number
        self.todo.append(
            (node, WireEvent(event="armed" if isinstance(command, Arm) else "released", at_ns=1, rule=rule))
        )

    def poll(self) -> list[tuple[int, WireEvent]]:
        todo, self.todo = self.todo, []
        return todo


def test_a_request_may_be_late_and_an_answer_may_not() -> None:
    assert problems(HOLD, RELEASE) == {}
    (problem,) = problems(f'{HOLD}direction = "response"', RELEASE).items()
    assert problem[0] == "steps[0].late"
    assert "nobody would get a late answer" in problem[1]


def test_only_a_hold_can_make_requests_late() -> None:
    assert problems(HOLD.replace("hold-", "drop-"), RELEASE)


def test_a_producer_without_transactions_has_none_to_abort() -> None:
    assert "only a transactional producer" in problems(producer="abort_unacked = true")["producers[0].abort_unacked"]
    kept = "abort_unacked = true\ntransactional = true\ntxn_records = 5"
    assert problems(producer=kept) == {}
    assert problems(producer=f'{kept}\nclient = "java"') == {}
    other = problems(producer=f'{kept}\nclient = "librdkafka"')
    assert "kafka-python and java only" in other["producers[0].abort_unacked"]


@pytest.mark.parametrize(
    ("late", "events", "outlived", "why"),
    [
        (True, ("held", "outlived", "forwarded"), 1, None),
        (True, ("held", "forwarded"), None, "no held request outlived its sender's connection: none was late"),
        (False, ("held", "forwarded"), None, None),
    ],
)
def test_a_release_of_late_requests_is_proven_by_those_that_outlived_their_senders(
    late: bool,
    events: tuple[str, ...],
    outlived: int | None,
    why: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "ANSWER_TIMEOUT_S", 0.05)
    proxies = Wire()
    faults = WireFaults(SimpleNamespace(wire=proxies, nodes={}), RecordFolder(tmp_path))  # type: ignore[arg-type]
    armed = faults.arm(WireRule(action="hold", nodes=(CLIENTS,), api="Produce", late=late))
    assert proxies.sent[0].rule.late is late
    proxies.todo += [(CLIENTS, WireEvent(event=one, at_ns=2, rule=armed.number, api=0, size_bytes=9)) for one in events]  # type: ignore[arg-type]
    faults.poll()
    assert faults.held_count([CLIENTS], "Produce") == 0
    effect = faults.release([armed])
    assert (effect.proof.get("outlived"), effect.why) == (outlived, why)
