"""What a person sees of a real run and of a real watch, on a terminal of 80 columns and 24 rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_turn import HOST
from live.commands import command
from live.foreign_cluster import ForeignCluster, foreign_cluster
from terminal import CTRL_C, Seen, codes_as_text, run_on_terminal, start_process, times_shown

pytestmark = [pytest.mark.live, pytest.mark.slow]

SIZE = (80, 24)
LANES = "a letter a second"
KAFKA = "4.3.1"


def watch_of(cluster: ForeignCluster, duration: str) -> list[str]:
    return command("watch", "--bootstrap", cluster.address(1), "--controllers", cluster.controllers, "--for", duration)


def check_clean(seen: Seen) -> None:
    """No escape code is shown as text, and no line of a view or a bar is left in the end."""
    assert codes_as_text(seen) == []
    assert LANES not in seen.text
    assert "━━━" not in seen.text


def check_lines_once(seen: Seen) -> None:
    """No note of the run stands there twice: each begins with its time."""
    notes = [line for line in seen.lines if line[:7].strip().replace(".", "").isdigit() and line[7:10] == "s  "]
    assert notes
    assert len(notes) == len(set(notes)), seen.text


def test_a_run_shows_one_view_in_its_place_and_each_line_once(tmp_path: Path) -> None:
    seen = run_on_terminal(
        start_process, command("run", "last-replica-standing", "--kafka", KAFKA), SIZE, tmp_path, timeout_s=600
    )
    assert seen.code == 0, seen.text
    check_clean(seen)
    check_lines_once(seen)
    assert max(sum(LANES in line for line in screen) for screen in seen.screens) == 1
    assert times_shown(seen.lines, "recorded in runs/") == 1
    assert times_shown(seen.lines, "report: runs/") == 1


def test_ctrl_c_in_a_run_leaves_no_view(tmp_path: Path) -> None:
    seen = run_on_terminal(
        start_process,
        command("run", "last-replica-standing", "--kafka", KAFKA),
        SIZE,
        tmp_path,
        type_at=[(LANES, CTRL_C)],
        timeout_s=600,
    )
    assert seen.code == 3, seen.text
    check_clean(seen)
    check_lines_once(seen)
    assert "Traceback" not in seen.text


def test_a_watch_shows_each_line_once_and_one_bar_at_a_time(tmp_path: Path) -> None:
    with HOST.held(), foreign_cluster(tmp_path / "cluster", KAFKA) as cluster:
        words = watch_of(cluster, "5s")
        seen = run_on_terminal(start_process, words, SIZE, tmp_path, timeout_s=600)
    check_clean(seen)
    check_lines_once(seen)
    assert times_shown(seen.lines, "judging 1 run") == 1
    assert max(sum("━━━" in line for line in screen) for screen in seen.screens) <= 2
    assert times_shown(seen.lines, "recorded in runs/") == 1
    assert seen.code == 0, seen.text


def test_ctrl_c_in_a_watch_leaves_no_bar(tmp_path: Path) -> None:
    keys = [("made the topic", CTRL_C)]
    with HOST.held(), foreign_cluster(tmp_path / "cluster", KAFKA) as cluster:
        seen = run_on_terminal(start_process, watch_of(cluster, "60s"), SIZE, tmp_path, type_at=keys, timeout_s=600)
    check_clean(seen)
    check_lines_once(seen)
    assert "Traceback" not in seen.text
    assert seen.code != 0, seen.text
