"""Room for clusters: so many run at once, and a run that is ready waits."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from cluster.host.bridge import address_of
from cluster.runtime.properties import plan_cluster
from ebbtide.scenario import catalogue
from ebbtide.waiting import WaitExpired, wait_until
from harness.runner import session
from harness.runner.cluster_room import WAIT_FOR_ROOM, ClusterRoom
from harness.runner.draws import Draws


def room_of(folder: Path, clusters: int) -> ClusterRoom:
    return ClusterRoom(folder=folder, clusters=clusters, timeout_s=0.2)


def test_a_run_waits_until_another_cluster_has_ended(tmp_path: Path) -> None:
    room = room_of(tmp_path, 2)
    with contextlib.ExitStack() as others, room.taken():
        others.enter_context(room.taken())
        with pytest.raises(WaitExpired, match=r"room for a cluster; last seen: 2 other clusters run"), room.taken():
            pass
        others.close()
        with room.taken():
            pass


def test_the_room_of_a_killed_process_is_free(tmp_path: Path) -> None:
    holder = (
        "import sys\nfrom pathlib import Path\nfrom harness.runner.cluster_room import ClusterRoom\n"
        "with ClusterRoom(folder=Path(sys.argv[1]), clusters=1, timeout_s=1).taken(): print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(WaitExpired), room_of(tmp_path, 1).taken():
            pass
        process.kill()
    with room_of(tmp_path, 1).taken():
        pass


def test_a_run_prepares_itself_without_room_and_gives_its_room_back_when_its_nodes_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "Workload", lambda **_: Mock(**{"create_topics.return_value": ()}))
    scenario = msgspec.structs.replace(catalogue.find("healthy"), kafka=("4.3.1",))
    runtime = Mock(
        nodes=plan_cluster(scenario.cluster, address_of).nodes,
        warning=None,
        **{"data_dir.side_effect": lambda node: tmp_path / str(node)},
    )
    room = room_of(tmp_path, 1)

    def done() -> list[str]:
        return [name for name, _, _ in runtime.method_calls if name in ("prepare", "start", "kill")]

    run = session.Session(scenario, Draws(assignments={}), runtime, "run-1", tmp_path, Mock(), room=room)
    with room.taken(), pytest.raises(WaitExpired, match="room for a cluster"):
        run.open()
    assert done() == ["prepare"]
    run = session.Session(scenario, Draws(assignments={}), runtime, "run-1", tmp_path, Mock(), room=room)
    run.open()
    assert done()[-1] == "start"
    assert run.timings_s[WAIT_FOR_ROOM] < 0.2
    with pytest.raises(WaitExpired), room.taken():
        pass
    runtime.kill.side_effect = lambda _: wait_until(lambda: not is_free(room), awaited="a held room", timeout_s=1)
    run.close()
    assert done()[-1] == "kill"
    assert is_free(room)


def is_free(room: ClusterRoom) -> bool:
    try:
        with msgspec.structs.replace(room, timeout_s=0.0).taken():
            return True
    except WaitExpired:
        return False
