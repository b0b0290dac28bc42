"""A search in several processes has the result of a search in one."""

from __future__ import annotations

import os
import signal
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest

from analysis.spec.explore import shared_hashes, side_by_side
from analysis.spec.explore.properties import PROPERTIES
from analysis.spec.explore.question import Answer, ask, machine_for
from analysis.spec.explore.search import MOVE_BITS, SearchResult, search
from analysis.spec.explore.share import Expand, Keep, Place, Request, Share, serve
from analysis.spec.explore.shared_hashes import SharedHashes
from analysis.spec.explore.shared_memory import NUMBER, SharedMemory, numbers_in
from analysis.spec.explore.side_by_side import search_side_by_side
from analysis.spec.model.bounds import Bounds
from analysis.spec.model.machine import canonical
from analysis.spec.model.words import State
from ebbtide.errors import HarnessError

# Python warns of a fork beside the threads of pytest-xdist; the command has none.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("elr_43", "committed", {"power_losses": 1}),
    ("elr_43", "committed", {"power_losses": 2}),
    ("elr_43", "invariants", {"power_losses": 1, "stops": 1}),
    ("elr_43", "acks-1", {"acks": "mixed", "records": 2}),
    ("elr_43", "committed", {"brokers": 4, "admin": 2, "admin_kinds": ("move",)}),
    ("elr_43", "committed", {"power_losses": 1, "records": 2, "steps": 7}),
    ("strict_min_isr_39", "committed", {"power_losses": 1, "records": 2}),
    ("strict_min_isr_39", "elr-has-hw", {"power_losses": 1, "kills": 1}),
    ("kraft", "committed", {"rf": 2, "min_isr": 1, "kills": 1, "disks_outside": 1}),
    ("kip966", "recovery", {"kills": 1, "power_losses": 1}),
]


@pytest.fixture(params=[1, 23, side_by_side.WINDOW], ids=lambda states: f"windows of {states}")
def _windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "WINDOW", request.param)


def without_time(found: SearchResult) -> SearchResult:
    return msgspec.structs.replace(found, elapsed_s=0.0)


def answers_of(jobs: int, variant: str, name: str, bounds: dict[str, Any], **limits: Any) -> Answer:
    answer = ask(variant, Bounds(**bounds), PROPERTIES[name], jobs=jobs, **limits)
    return msgspec.structs.replace(answer, found=without_time(answer.found))


@pytest.mark.usefixtures("_windows")
@pytest.mark.parametrize(("variant", "name", "bounds"), QUESTIONS)
def test_states_moves_depth_and_path_are_those_of_one_process(variant: str, name: str, bounds: dict[str, Any]) -> None:
    assert answers_of(2, variant, name, bounds) == answers_of(1, variant, name, bounds)


@pytest.mark.parametrize("jobs", [3, 5])
def test_any_number_of_processes_has_the_same_answer(jobs: int) -> None:
    question = ("elr_43", "committed", {"power_losses": 2, "records": 2})
    assert answers_of(jobs, *question) == answers_of(1, *question)


@pytest.mark.usefixtures("_windows")
@pytest.mark.parametrize("max_states", [1, 2, 300, 1000, 1903, 5000])
def test_a_limit_of_states_ends_the_search_at_the_same_state(max_states: int) -> None:
    question = ("elr_43", "committed", {"power_losses": 1})
    assert answers_of(2, *question, max_states=max_states) == answers_of(1, *question, max_states=max_states)


@pytest.mark.usefixtures("_windows")
@pytest.mark.parametrize("wanted_at", [1, 4, 1000])
def test_a_search_goes_on_after_the_same_unwanted_counterexamples(wanted_at: int) -> None:
    def nth() -> Any:
        seen: list[object] = []
        return lambda found: len(seen) >= wanted_at or bool(seen.append(found))

    question = ("strict_min_isr_39", "committed", {"power_losses": 1, "records": 2})
    assert answers_of(2, *question, wanted=nth()) == answers_of(1, *question, wanted=nth())


@pytest.mark.usefixtures("_windows")
def test_a_state_that_the_check_refuses_ends_the_search_at_the_same_state() -> None:
    def check(state: State) -> bool:
        return hash(state) % 97 != 0

    def machine() -> Any:
        return machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])

    unlucky = 0
    for turned_down in range(3):
        paths: list[tuple[int, ...]] = []

        def accept(path: tuple[int, ...], paths: list[tuple[int, ...]] = paths, after: int = turned_down) -> bool:
            paths.append(path)
            return len(paths) > after

        one = search(machine(), check=check, accept=accept)
        seen, paths[:] = [*paths], []
        two = search_side_by_side(machine(), 2, check=check, accept=accept)
        assert (without_time(two), paths) == (without_time(one), seen)
        unlucky += one.ending == "violated"
    assert unlucky == 3


def test_a_search_whose_time_is_over_ends_unfinished() -> None:
    bounds = Bounds(rf=5, min_isr=3, power_losses=2)
    assert ask("elr_43", bounds, PROPERTIES["committed"], max_time_s=0.0, jobs=2).found.ending == "time"


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended before the search"),
        (lambda: os._exit(9), "exit code 9"),
    ],
    ids=["killed", "failed"],
)
def test_a_process_that_ends_early_ends_the_search_with_one_error(end: Callable[[], None], says: str) -> None:
    parent = os.getpid()

    def check(state: State) -> bool:
        if os.getpid() != parent:
            end()
        return True

    machine = machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])
    with pytest.raises(HarnessError) as failed:
        search_side_by_side(machine, 2, check=check)
    assert says in failed.value.render()


def test_a_process_ends_when_its_coordinator_is_gone() -> None:
    ours, theirs = side_by_side._FORK.Pipe()
    machine = machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])
    memory = SharedMemory(1)
    process = side_by_side._FORK.Process(target=serve, args=(machine, None, memory, 0, 1, theirs, [ours]), daemon=True)
    process.start()
    ours.close()
    process.join(10)
    memory.close()
    assert process.exitcode == 0


def successors_of(states: list[State]) -> dict[State, int]:
    """Return each state after `states` with the first key that leads to it."""
    machine = machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])
    found: dict[State, int] = {}
    for number, state in enumerate(states):
        for which, move in enumerate(machine.moves(state)):
            found.setdefault(canonical(move.shared, move.data, move.words), number << MOVE_BITS | which)
    return found


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first piece first", "second piece first"])
def test_a_state_that_two_pieces_find_stays_with_the_first_piece(order: tuple[int, int]) -> None:
    machine = machine_for("elr_43", Bounds(power_losses=1), PROPERTIES["committed"])
    first = machine.initial_state()
    start = canonical(first[0], first[1], first[2:])
    level = [start]
    for _ in range(4):
        level = list(successors_of(level))
    wanted = {state: key for state, key in successors_of(level).items() if state != start}
    half = -(-len(level) // 2)
    assert wanted.keys() & successors_of(level[:half]).keys() & successors_of(level[half:]).keys()

    memory = SharedMemory(2)
    memory.levels[0].write(memoryview(array("Q", chain.from_iterable(level))).cast("B"), 0)
    shares = [Share(machine, None, memory, at, 2) for at in range(2)]
    for at in order:
        memory.turns.put([at * half, min((at + 1) * half, len(level))])
        shares[at].expand(Expand(0, 0, len(level)))
    counts = [share.keep(Keep(0)).counts[0] for share in shares]
    for share, place in zip(shares, (0, counts[0]), strict=True):
        share.place(Place([place], 0))
    keys = numbers_in(memory.keys.read(sum(counts) * NUMBER, 0))
    states = numbers_in(memory.levels[1].read(sum(counts) * NUMBER * len(start), 0))
    memory.close()
    assert list(keys) == list(wanted.values())
    assert list(states) == list(chain.from_iterable(wanted))


@pytest.mark.parametrize("remembered", [0, 100, 1500])
def test_hashes_that_no_process_remembers_are_in_the_table(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Request]] = []
    answers: list[list[object]] = []
    ask_all = side_by_side._Coordinator._ask

    def watch(coordinator: Any, requests: list[Request], answer: type) -> list[Any]:
        asked.append(requests)
        answers.append(ask_all(coordinator, requests, answer))
        if isinstance(requests[0], Place):
            # Only the table in use takes memory.
            assert sum(os.fstat(file._descriptor).st_size > 0 for file in coordinator._memory.hashes) <= 1
        return answers[-1]

    monkeypatch.setattr(side_by_side, "REMEMBERED", remembered)
    monkeypatch.setattr(side_by_side, "WINDOW", 50)
    question = ("elr_43", "committed", {"power_losses": 2, "records": 2})
    alone = answers_of(1, *question)
    monkeypatch.setattr(side_by_side._Coordinator, "_ask", watch)
    assert answers_of(3, *question) == alone

    windows = [one for one in zip(asked, answers, strict=True) if isinstance(one[0][0], Expand)]
    sums = [sum(expanded.remembered for expanded in each) for _, each in windows]
    slots = [one[0].slots for one in asked if isinstance(one[0], Keep)]
    assert [of_window > 0 for of_window in slots] == [remembered < total for total in sums]
    # It grew, and the processes forgot what had gone there.
    assert len({*slots} - {0}) > 1
    assert any(after < before for before, after, moved in zip(sums, sums[1:], slots, strict=False) if moved)


def new_in(table: SharedHashes, marks: list[int]) -> list[int]:
    """Return those of `marks` that the table does not have."""
    left, twice = array("q", marks), array("Q", chain.from_iterable((at, at) for at in range(len(marks))))
    table.drop_known(0, left, twice)
    assert [marks[at] for at in twice[::2]] == list(left)
    assert twice[::2] == twice[1::2]
    return list(left)


@pytest.mark.parametrize("at_once", [7, 1 << 16])
def test_a_table_of_hashes_that_grows_keeps_what_every_process_added(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_hashes, "_AT_ONCE", at_once)
    memory = SharedMemory(3)
    tables = [SharedHashes(memory.hashes, at, 3) for at in range(3)]
    marks = [hash((number, "mark")) for number in range(400)]
    for slots, start, stop in ((256, 0, 120), (1024, 120, 400)):
        memory.hashes[slots // 1024].resize(slots * NUMBER)
        written: list[set[int]] = []
        for table in tables:
            table.resize(slots)
        before = list(tables[0]._slots)
        for table in tables:
            table.add(marks[start:stop])
            after = list(table._slots)
            written.append({slot for slot in range(slots) if after[slot] != before[slot]})
            before = after
        # Each writes slots of its own.
        assert all(written)
        assert len(set.union(*written)) == sum(map(len, written))
        assert all(new_in(table, marks) == marks[stop:] for table in tables)
    memory.close()


@pytest.fixture
def table_of() -> Iterator[Callable[[int], SharedHashes]]:
    """Make a table of so many slots for one process."""
    memory = SharedMemory(1)

    def make(slots: int) -> SharedHashes:
        memory.hashes[0].resize(slots * NUMBER)
        table = SharedHashes(memory.hashes, 0, 1)
        table.resize(slots)
        return table

    yield make
    memory.close()


def test_hashes_for_one_slot_are_all_in_the_table(table_of: Callable[[int], SharedHashes]) -> None:
    table = table_of(16)
    marks = [-3, 13, 29, -19, 14, 15, 31]
    table.add({*marks})
    assert new_in(table, [45, *marks, 30]) == [45, 30]


def test_hashes_before_the_piece_stay_also_if_the_table_has_them(table_of: Callable[[int], SharedHashes]) -> None:
    table = table_of(8)
    table.add([5, 6])
    marks = array("q", [5, 6, 7])
    table.drop_known(1, marks)
    assert list(marks) == [5, 7]


def test_a_state_whose_hash_is_0_is_found_in_the_table(table_of: Callable[[int], SharedHashes]) -> None:
    table = table_of(8)
    assert new_in(table, [0, 2]) == [0, 2]
    table.add([0])
    assert new_in(table, [0, 2]) == [2]


@pytest.mark.parametrize(("states", "jobs"), [(1, 2), (15, 2), (700, 3), (70_000, 2)])
def test_the_pieces_of_a_window_follow_one_another_and_the_last_ones_are_small(states: int, jobs: int) -> None:
    pieces = list(side_by_side._pieces(100, 100 + states, jobs))
    assert [number for piece in pieces for number in range(*piece)] == list(range(100, 100 + states))
    sizes = [stop - start for start, stop in pieces]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= side_by_side.PIECE_MIN
    assert max(sizes) <= side_by_side.PIECE


def test_a_search_expands_few_states_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[int, int]] = []
    full_at = side_by_side._Coordinator._full_at

    def watched(coordinator: Any, first: int, start: int, stop: int, keys: array[int]) -> int | None:
        full = full_at(coordinator, first, start, stop, keys)
        if full is not None:
            ended.append((full, stop))
        return full

    monkeypatch.setattr(side_by_side._Coordinator, "_full_at", watched)
    bounds = {"records": 4, "power_losses": 1, "stops": 2}
    assert answers_of(2, "elr_43", "committed", bounds, max_states=100_000).found.ending == "states"
    ((full, stop),) = ended
    assert stop - full < stop / 20
