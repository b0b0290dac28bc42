"""The page of a large run: at most 5 MB, with a picture of each partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from judge_records import Story, ns
from pages import write_page
from playwright.sync_api import Browser
from records import write_table

from ebbtide.record.tables import POLLS, SENDS, WATERMARKS
from ebbtide.record.verdict import Counts, Verdict

pytestmark = pytest.mark.browser

RECORDS = 200_000
PARTITIONS = 6
LASTS_S = 120


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run of two minutes with 200,000 records in six partitions."""
    story = Story(tmp_path_factory.mktemp("large"))
    story.change(start_ns=ns(0), end_ns=ns(LASTS_S))
    for broker in (1, 2, 3):
        story.broker(0, broker)
    for at in range(40):
        isr = [1, 2, 3] if at % 2 == 0 else [1, 2]
        story.state(2 + 2.8 * at, isr=isr, **({"leader": 1 + at % 2} if at % 4 == 3 else {}))
        story.step(3 + 2.8 * at, "pause", 3)
    states = story.tables["partitions"]
    story.tables["partitions"] = [
        {**state, "partition": number, "metadata_offset": state["metadata_offset"] + number}
        for state in states
        for number in range(PARTITIONS)
    ]
    story.write()
    _write_clients(story.record)
    counts = Counts(sends=RECORDS, acked=RECORDS, polls=RECORDS)
    return write_page(story.record, Verdict(run_id="run-1", outcome="as-predicted", counts=counts))


def _write_clients(record: Path) -> None:
    """Every record is acked 5 ms after it was sent and read 5 ms later; the HW is asked every 100 ms."""
    values = range(RECORDS)
    sent = [ns(2) + value * (LASTS_S - 4) * 1_000_000_000 // RECORDS for value in values]
    common = {
        "topic": ["t"] * RECORDS,
        "partition": [value % PARTITIONS for value in values],
        "offset": [value // PARTITIONS for value in values],
        "value": list(values),
    }
    sends = {
        **common,
        "producer": [1] * RECORDS,
        "sequence": list(values),
        "acks": [-1] * RECORDS,
        "status": ["acked"] * RECORDS,
        "sent_ns": sent,
        "done_ns": [at + 5_000_000 for at in sent],
    }
    polls = {
        **common,
        "consumer": [1] * RECORDS,
        "session": [1] * RECORDS,
        "isolation": ["read_uncommitted"] * RECORDS,
        "polled_ns": [at + 10_000_000 for at in sent],
    }
    asked = [(number, at) for at in range(20, 10 * LASTS_S - 20) for number in range(PARTITIONS)]
    marks = {
        "topic": ["t"] * len(asked),
        "partition": [number for number, _ in asked],
        "broker": [1] * len(asked),
        "high_watermark": [at * RECORDS // PARTITIONS // (10 * LASTS_S) for _, at in asked],
        "source": ["list_offsets"] * len(asked),
        "at_ns": [ns(at / 10) for _, at in asked],
    }
    for name, columns, schema in (("sends", sends, SENDS), ("polls", polls, POLLS), ("watermarks", marks, WATERMARKS)):
        rows = len(columns["topic"])
        arrays = [pa.array(columns.get(field.name, [None] * rows), field.type) for field in schema]
        write_table(record, name, pa.Table.from_arrays(arrays, schema=schema))


def test_the_page_of_200_000_records_in_six_partitions_is_at_most_5_mb(large: Path) -> None:
    assert large.stat().st_size <= 5_000_000


def test_the_page_of_200_000_records_opens_with_a_picture_of_each_partition(
    browser: Browser, large: Path, shots: Path
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(large.as_uri())
    page.locator("#p0 output").wait_for()
    assert page.locator("figure.partition").count() == PARTITIONS
    page.screenshot(path=shots / "large.png")
    context.close()
