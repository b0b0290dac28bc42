"""The page of a counterexample in a real browser: its shapes agree with the steps, and everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import check_readable, edges
from playwright.sync_api import Browser, Page

from analysis.counterexample.page import render_counterexample
from analysis.report.pages import write_page
from analysis.spec.explore.properties import PROPERTIES, Property
from analysis.spec.explore.question import Answer, ask
from analysis.spec.explore.trace import Trace
from analysis.spec.model import words as w
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.words import DATA_BITS

pytestmark = pytest.mark.browser

NEAR_PX = 1.5
VARIANT = "elr_43"
BOUNDS = Bounds(brokers=4, admin=2, admin_kinds=("move",))


@pytest.fixture(scope="module")
def answer() -> Answer:
    return ask(VARIANT, BOUNDS, PROPERTIES["committed"])


@pytest.fixture(scope="module")
def trace(answer: Answer) -> Trace:
    assert answer.trace is not None
    return answer.trace


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, answer: Answer, trace: Trace) -> Path:
    page = tmp_path_factory.mktemp("counterexample") / "page.html"
    write_page(page, render_counterexample(VARIANT, BOUNDS, PROPERTIES["committed"], answer, trace))
    return page


@pytest.fixture(scope="module")
def shown(browser: Browser, path: Path) -> Iterator[Page]:
    """The page, opened once: for tests that only look, at any width."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    yield page
    context.close()


def middles(page: Page, selector: str) -> list[float]:
    return [(left + right) / 2 for left, right in edges(page, selector)]


def test_every_row_shows_the_leader_and_the_isr_below_their_brokers(shown: Page, trace: Trace) -> None:
    page = shown
    lanes = dict(zip(sorted(trace.initial), middles(page, ".lanes text")[2:], strict=True))
    for number, words in enumerate([trace.initial, *(step.words for step in trace.steps)]):
        for look, flag, unless in (("leader", w.LEADER, 0), ("isr", w.IN_ISR, w.LEADER), ("elr", w.IN_ELR, w.LEADER)):
            drawn = middles(page, f"#step-{number} .cell.{look} > rect")
            members = [one for one, word in words.items() if word >> DATA_BITS & (flag | unless) == flag]
            assert drawn == pytest.approx([lanes[one] for one in members], abs=NEAR_PX), (number, look)


def test_the_arrow_of_the_election_that_loses_goes_from_the_controller_to_the_new_leader(
    shown: Page, trace: Trace
) -> None:
    page = shown
    last = f"#step-{len(trace.steps)}"
    lanes = middles(page, ".lanes text")
    (new,) = [one for one, word in trace.steps[-1].words.items() if word >> DATA_BITS & w.LEADER]
    assert edges(page, f"{last} .guilty line") == [pytest.approx((lanes[1], lanes[1 + new]), abs=NEAR_PX)]
    assert page.locator(f"{last} .guilty text").text_content() == "leads without a"
    assert page.locator(f"{last} .record.missing").count() == 1


def test_the_keyboard_goes_from_step_to_step(open_page: Any, path: Path) -> None:
    page = open_page(path)
    for number in ("0", "1", "2"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == number
    page.keyboard.press("Enter")
    assert page.locator(".row:target").get_attribute("id") == "step-2"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1440, "light")])
def test_axe_finds_no_barrier_and_nothing_leaves_the_window(
    open_page: Any, path: Path, axe: str, shots: Path, width: int, scheme: str
) -> None:
    shot = shots / f"counterexample-{width}-{scheme}.png"
    check_readable(open_page(path, width=width, scheme=scheme), axe, width, shot)


@pytest.mark.parametrize("width", [360, 1440])
def test_no_text_of_a_row_stands_on_another(shown: Page, width: int) -> None:
    shown.set_viewport_size({"width": width, "height": 900})
    shown.reload()
    overlaps = shown.evaluate(
        """() => [...document.querySelectorAll('.seen .plot')].flatMap(row => {
          const boxes = [...row.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
          return boxes.flatMap(([text, a], at) => boxes.slice(at + 1).filter(([, b]) =>
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
            .map(([other]) => [row.parentElement.parentElement.id, text, other]));
        })"""
    )
    assert overlaps == []


def test_the_picture_is_there_without_a_script(open_page: Any, path: Path, trace: Trace) -> None:
    page = open_page(path, java_script_enabled=False)
    assert page.locator(".row .plot:visible").count() == len(trace.steps) + 1


def test_a_hostile_text_stays_text(open_page: Any, tmp_path: Path, answer: Answer, trace: Trace) -> None:
    hostile = "</title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    at = tmp_path / "hostile.html"
    write_page(at, render_counterexample(VARIANT, BOUNDS, Property(hostile, hostile, hostile), answer, trace))
    page = open_page(at)
    assert page.title() == f"Counterexample in elr-43: {hostile}"
    assert page.locator("img").count() == 0
    assert hostile in page.locator("h1").inner_text()
