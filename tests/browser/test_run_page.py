"""A run's page in a real browser: its marks agree with the record, and everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pages import RUNS, Pages, axis_of, edges, rows, steps, write_page
from playwright.sync_api import Browser, Page
from real_records import unpack_record

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.verdict import read_judgement

pytestmark = pytest.mark.browser

WIDTHS = (360, 768, 1440)
"""The last one is that of the tests before."""
NEAR_PX = 1.5
LOSS = RUNS[0]


@pytest.fixture
def opened(open_page: Any, pages: Pages) -> Any:
    """Opens a run's page in a window of its own."""
    return lambda name, **more: open_page(pages[name], **more)


@pytest.fixture(scope="module")
def shown(browser: Browser, pages: Pages) -> Iterator[dict[str, Page]]:
    """Each run's page, opened once: for tests that only look, at any width."""
    context = browser.new_context(offline=True, reduced_motion="reduce")
    found = {name: context.new_page() for name in RUNS}
    failed: list[object] = []
    for name, page in found.items():
        page.on("pageerror", lambda error: failed.append(error))
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(pages[name].as_uri())
    yield found
    context.close()
    assert not failed, "a page's script failed"


def since_start(record: Path, at_ns: int) -> float:
    return (at_ns - (read_manifest(RecordFolder(record)).start_ns or 0)) / 1e9


def first_partition(page: Page) -> tuple[str, int]:
    shown = page.locator("#p0").get_attribute("aria-label") or ""
    topic, _, number = shown.split("partition ")[1].split(",")[0].rpartition("-")
    return topic, int(number)


@pytest.mark.parametrize("name", RUNS)
def test_an_election_stands_where_the_metadata_log_has_it(shown: dict[str, Page], pages: Pages, name: str) -> None:
    page, record = shown[name], pages[name].parent
    axis, key = axis_of(page), first_partition(page)
    states = [row for row in rows(record, "partitions") if (row["topic"], row["partition"]) == key]
    states.sort(key=lambda row: int(row["metadata_offset"]))
    elected = [after["at_ns"] for before, after in pairwise(states) if after["leader"] not in (-1, before["leader"])]
    drawn = [(left + right) / 2 for left, right in edges(page, "#p0 .line")]
    assert elected
    assert drawn == pytest.approx([axis.place(since_start(record, at)) for at in elected], abs=NEAR_PX)


@pytest.mark.parametrize("name", RUNS)
def test_a_fault_lasts_as_long_as_its_step_says(shown: dict[str, Page], pages: Pages, name: str) -> None:
    page, record = shown[name], pages[name].parent
    axis = axis_of(page)
    lasting = [step for step in steps(record) if step["healed_ns"] is not None]
    drawn = edges(page, "#p0 .span.fault")
    assert len(drawn) == len(lasting) > 0
    for (left, right), step in zip(drawn, lasting, strict=True):
        assert left == pytest.approx(axis.place(since_start(record, step["fired_ns"])), abs=NEAR_PX)
        assert right == pytest.approx(axis.place(since_start(record, step["healed_ns"])), abs=NEAR_PX)


@pytest.mark.parametrize("name", RUNS)
def test_the_high_watermark_at_five_times_is_what_a_broker_last_answered(
    shown: dict[str, Page], pages: Pages, name: str
) -> None:
    page, record = shown[name], pages[name].parent
    axis, key = axis_of(page), first_partition(page)
    answers = sorted(
        (since_start(record, row["at_ns"]), row["high_watermark"])
        for row in rows(record, "watermarks")
        if row["source"] == "list_offsets" and (row["topic"], row["partition"]) == key
    )
    top = page.locator("#p0 .plot").bounding_box()
    assert top is not None
    for at in (len(answers) * part // 5 for part in range(5)):
        between_s = (answers[at][0] + answers[min(at + 1, len(answers) - 1)][0]) / 2
        page.mouse.move(axis.place(between_s), top["y"] + 4)
        seen_s = float(page.locator("#p0 output").inner_text().split(" s")[0].replace("−", "-"))
        seen = [hw for when, hw in answers if when <= seen_s + 0.0005]
        assert seen_s == pytest.approx(between_s, abs=0.05)
        assert f"HW {seen[-1]:,} " in page.locator("#p0 output").inner_text()


def test_the_guilty_election_says_its_metadata_record_when_pointed_at(opened: Any, pages: Pages) -> None:
    page = opened(LOSS)
    (guilty,) = read_judgement(RecordFolder(pages[LOSS].parent)).losses
    assert guilty.election is not None
    page.locator("#p0 .line.guilty .flag").hover()
    tip = page.locator(".tip")
    assert tip.is_visible()
    said = " ".join(tip.inner_text().split())
    assert f"broker {guilty.election.leader} elected" in said
    assert f"metadata offset {guilty.election.metadata_offset}" in said
    assert "guilty of last-replica-standing: 2,000 records lost" in said


def test_a_fault_says_its_step_and_its_proof_when_pointed_at(opened: Any) -> None:
    page = opened(LOSS)
    page.locator("#p0 .span.fault").nth(1).hover()
    said = " ".join(page.locator(".tip").inner_text().split())
    assert "step 1 power-loss" in said
    assert "t-0 log end 2000 before and 0 after" in said


def test_the_keyboard_reaches_the_details_of_a_row_one_after_the_other(opened: Any) -> None:
    page = opened(LOSS)
    page.locator('#p0 [data-row="broker 3 role"]').first.focus()
    first = page.locator(".tip b").inner_text()
    page.keyboard.press("ArrowRight")
    assert (first, page.locator(".tip b").inner_text()) == ("leader", "ISR")
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()


def test_zooming_in_keeps_the_marks_on_their_times(opened: Any, pages: Pages) -> None:
    page, record = opened(LOSS), pages[LOSS].parent
    for _ in range(2):
        page.get_by_role("button", name="Zoom in").click()
    assert page.locator("#p0 .time").get_attribute("width") == "400%"
    elected = min(row["at_ns"] for row in rows(record, "partitions") if row["leader_epoch"] == 2)
    ((left, right),) = edges(page, "#p0 .line.guilty")
    assert (left + right) / 2 == pytest.approx(axis_of(page).place(since_start(record, elected)), abs=2 * NEAR_PX)
    page.get_by_role("button", name="Whole run").click()
    assert page.locator("#p0 .time").get_attribute("width") == "100%"


def test_another_partition_can_be_chosen_with_and_without_a_script(opened: Any) -> None:
    for has_script in (True, False):
        page = opened(RUNS[2], java_script_enabled=has_script)
        assert page.locator("figure:visible").count() == 1
        page.locator('label[for="choose-p2"]').click()
        assert page.locator("#p2").is_visible()
        assert page.locator("#p0").is_hidden()


def test_every_folded_table_opens(opened: Any) -> None:
    page = opened(LOSS)
    folds = page.locator("details.fold")
    for at in range(folds.count()):
        fold = folds.nth(at)
        assert fold.locator(".folded").is_hidden()
        fold.locator("summary").first.click()
        assert fold.locator(".folded").is_visible()
    assert folds.count() >= 8


def test_without_a_script_the_picture_is_there_and_promises_nothing_more(opened: Any, shots: Path) -> None:
    page = opened(LOSS, java_script_enabled=False)
    assert page.locator("#p0 .line.guilty .flag").is_visible()
    assert page.locator("#p0 .span.leader").count() == 2
    assert page.locator("#p0 .lost-label .long").is_visible()
    assert page.locator(".controls").is_hidden()
    assert page.locator("#p0 .line.guilty title").text_content().startswith("broker 3 elected")
    page.screenshot(path=shots / "without-javascript.png", full_page=True)


def test_a_hostile_title_stays_text(open_page: Any, tmp_path: Path, pages: Pages) -> None:
    hostile = "</title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    record = unpack_record(LOSS, tmp_path)
    write_manifest(RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), scenario=hostile))
    toml = (record / "scenario.toml").read_text()
    title = next(line for line in toml.splitlines() if line.startswith("title = "))
    (record / "scenario.toml").write_text(toml.replace(title, f"title = '''{hostile}'''"))
    page = open_page(write_page(record, read_judgement(RecordFolder(pages[LOSS].parent))))
    assert page.title() == f"{hostile} on Kafka 3.9.1: as-predicted"
    assert page.locator("img").count() == 0
    assert page.locator("header p").first.inner_text() == f"{hostile} on Apache Kafka 3.9.1: {hostile}"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RUNS)
def test_no_text_of_the_picture_stands_on_another(shown: dict[str, Page], name: str, width: int) -> None:
    page = shown[name]
    page.set_viewport_size({"width": width, "height": 900})
    page.reload()
    overlaps = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll('#p0 .label tspan, #p0 .ticks text')]
            .map(one => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
          return boxes.flatMap(([a, p], at) => boxes.slice(at + 1)
            .filter(([, q]) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
                            && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3)
            .map(([b]) => [a, b]));
        }"""
    )
    assert overlaps == []


def test_the_page_prints_to_a_few_pages_with_the_picture(opened: Any, shots: Path) -> None:
    page = opened(LOSS)
    printed = page.pdf(path=shots / "printed.pdf", format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator(".controls").first.is_hidden()
    assert page.locator("#p0 .line.guilty").is_visible()


def test_the_page_of_a_demo_is_at_most_a_megabyte(pages: Pages) -> None:
    assert max(path.stat().st_size for path in pages.values()) <= 1_000_000
