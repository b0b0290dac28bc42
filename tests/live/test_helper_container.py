"""Without root, with Docker: a member of the socket's group gets root's powers through a helper container."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_state import HostState
from live.commands import records_in
from live.ordinary_user import OrdinaryUser, shown_to_the_host

from cluster.host.containers import connect
from cluster.privileges.helper_container import LABEL
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.live]

RUN = ("run", "last-replica-standing", "--kafka")
_SOCKET = Path(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://"))


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrdinaryUser]:
    """A user who may use the daemon."""
    home = tmp_path_factory.mktemp("member") / "home"
    user = OrdinaryUser.at(home, "3.9.1", "4.3.1", groups=(_SOCKET.stat().st_gid,))
    with shown_to_the_host(home):
        yield user


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    wait_until(lambda: _helpers() == [], awaited="the helper container to be gone", timeout_s=30)


def _helpers() -> list[str]:
    client = connect()
    try:
        return [container["Id"] for container in client.api.containers(all=True, filters={"label": LABEL})]
    finally:
        client.close()


@pytest.mark.slow
def test_the_doctor_tries_everything_with_the_powers_of_the_helper(member: OrdinaryUser) -> None:
    done = member.run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "helper container" in done.stdout
    # Before it, the lines about the helper's image where no test built one yet.
    assert done.stderr.splitlines()[-1] == "not root: through a helper container of the Docker daemon, as root"


@pytest.mark.slow
def test_the_demo_comes_to_the_same_verdicts_and_belongs_to_the_user(member: OrdinaryUser) -> None:
    before, seen = HostState.now(), set(records_in(member.home / "runs"))
    done = member.run(*RUN, "3.9.1,4.3.1")
    assert done.returncode == 0, done.stdout + done.stderr
    without_elr, with_elr = sorted(set(records_in(member.home / "runs")) - seen)
    for record in (without_elr, with_elr):
        manifest = read_manifest(RecordFolder(record))
        assert (manifest.power_loss_method, manifest.host["powers"]) == ("fs-shutdown", "helper container")
    lost, kept = read_verdict(RecordFolder(without_elr)), read_verdict(RecordFolder(with_elr))
    assert lost is not None
    assert kept is not None
    assert {(loss.cause, loss.committed) for loss in lost.losses} == {("last-replica-standing", True)}
    assert not kept.losses
    assert (lost.outcome, kept.outcome) == ("as-predicted", "as-predicted")
    assert {path.stat().st_uid for path in (member.home, *member.home.rglob("*"))} == {member.home.stat().st_uid}
    assert HostState.now().left_since(before, without_elr.name, with_elr.name, str(member.home)) == []


@pytest.mark.parametrize(
    ("number", "status", "options"),
    [
        pytest.param(signal.SIGKILL, -9, ("--no-judge",), id="kill"),
        # Spark starts beside the run.
        pytest.param(signal.SIGKILL, -9, (), id="kill beside Spark", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 3, ("--no-judge",), id="Ctrl-C", marks=pytest.mark.slow),
    ],
)
def test_a_run_whose_user_process_ends_undoes_everything_itself(
    number: signal.Signals, status: int, options: tuple[str, ...], member: OrdinaryUser
) -> None:
    before, seen = HostState.now(), set(records_in(member.home / "runs"))
    run = member.watch(*RUN, "4.3.1", *options)
    assert run.signal_once_it_says("power-loss broker", number) == status
    wait_until(lambda: _helpers() == [], awaited="the helper container to end", timeout_s=60)
    (record,) = set(records_in(member.home / "runs")) - seen
    assert HostState.now().left_since(before, record.name, str(member.home)) == []
    assert read_manifest(RecordFolder(record)).status == "interrupted"
    assert record.stat().st_uid == member.home.stat().st_uid
    assert not [path for path in record.rglob("*") if path.stat().st_uid != member.home.stat().st_uid]
    assert "Traceback" not in run.text()
    assert os.path.isdir(record / "raw" / "broker-1")
