"""The table of coverage facts is whole: no verdict, prediction or page knows another one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from judge_records import ELR_ON, Story, ns

from ebbtide.record.clients import ClientEvent, write_client_events
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import ProducerSetup
from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.scenario.facts import FACTS, missing_needs
from tools.pages.catalogue import scenarios
from tools.pages.facts import PAGE, page


def test_a_record_with_everything_in_it_has_every_fact(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(0.5, broker, "unfenced")
    story.state(1)
    story.hw(2, 1, 0, 1)
    place = {"topic": "t", "partition": 0, "value": 1}
    story.tables["sends"].append(
        place | {"producer": 1, "sequence": 1, "acks": -1, "status": "acked", "sent_ns": ns(2), "done_ns": ns(3)}
    )
    story.tables["polls"].append(
        place | {"offset": 1, "consumer": 1, "session": 1, "isolation": "read_uncommitted", "polled_ns": ns(3)}
    )
    story.tables["described"].append(
        {"topic": "t", "partition": 0, "broker": 1, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
        | {"asked_ns": ns(2), "at_ns": ns(3)}
    )
    story.change(producers={"1": ProducerSetup(acks=-1, idempotent=True)})
    write_client_events(RecordFolder(tmp_path), "producer-1", [ClientEvent(event="fenced", at_ns=ns(3))])
    (tmp_path / "logs").mkdir()
    with gzip.open(tmp_path / "logs" / "controller-100.log.gz", "w"):
        pass
    (tmp_path / "anomalies").mkdir()
    pq.write_table(pa.Table.from_pylist([], schema=ANOMALY_SCHEMA), tmp_path / "anomalies" / "a.parquet")
    assert story.judge().coverage.keys() == FACTS.keys()


def test_every_fact_that_the_catalogue_asks_for_is_one() -> None:
    for scenario in scenarios():
        for prediction in scenario.predictions:
            assert {*prediction.exercised, *prediction.never} <= FACTS.keys(), scenario.name


def test_one_of_what_a_fact_needs_is_enough_and_most_need_nothing() -> None:
    assert missing_needs("elections-while-recovering", {"recovering": 1}) == ()
    assert missing_needs("elections-while-recovering", {"recovering": 0}) == ("recovering",)
    assert missing_needs("elections", {}) == ()


def test_the_page_has_the_table_of_the_code_and_the_catalogue() -> None:
    assert PAGE.read_text() == page(scenarios()), "python -m tools.pages.catalogue"
