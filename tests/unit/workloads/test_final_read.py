"""The final read: what it does when Kafka refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from kafka.errors import KafkaError, NotLeaderForPartitionError, TopicAuthorizationFailedError

from ebbtide.errors import UsageError
from ebbtide.waiting import WaitExpired
from workloads import final_read
from workloads.config import Endpoints, FinalReadConfig
from workloads.process import Stop
from workloads.status import ClientState, StatusFile


def read_that_meets(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float) -> ClientState:
    def refuse(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(final_read, "read_once", refuse)
    endpoints = Endpoints(status=str(folder / "s"), stop=str(folder / "stop"))
    config = FinalReadConfig(
        endpoints=endpoints, journal="", run_id="r", bootstrap=("a:1",), topics={"t": 1}, result="", timeout_s=timeout_s
    )
    status = StatusFile.create(folder / "s", 0)
    return final_read.run(config, status, Stop(endpoints.stop))


def test_a_right_that_is_missing_ends_the_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = TopicAuthorizationFailedError({"t"})
    with pytest.raises(UsageError, match="may not read") as caught:
        read_that_meets(denied, tmp_path, monkeypatch, timeout_s=600)
    assert caught.value.where == "t"


def test_a_read_that_is_stopped_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stop").touch()
    assert read_that_meets(KafkaError("never"), tmp_path, monkeypatch, timeout_s=600) == ClientState.STOPPED


def test_what_may_pass_is_tried_again_until_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WaitExpired, match="NotLeader"):
        read_that_meets(NotLeaderForPartitionError(), tmp_path, monkeypatch, timeout_s=0.5)
