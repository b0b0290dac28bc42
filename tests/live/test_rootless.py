"""Without root and without Docker: whole runs by an ordinary user, in namespaces of their own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from host_state import HostState
from live.commands import records_in
from live.ordinary_user import OrdinaryUser

from cluster.privileges import user_namespace
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.verdict import read_verdict
from ebbtide.waiting import wait_until

pytestmark = pytest.mark.rootless

RUN = ("run", "last-replica-standing", "--runtime", "local", "--kafka")


@pytest.fixture(scope="module", autouse=True)
def _skip_without_user_namespaces() -> None:
    why_not = user_namespace.why_unavailable()
    if why_not is not None:
        pytest.skip(f"no user namespaces: {why_not}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return OrdinaryUser.at(tmp_path_factory.mktemp("rootless") / "home", "3.9.1", "4.3.1").home


@pytest.mark.slow
def test_the_demo_comes_to_the_same_verdicts_by_truncate(home: Path) -> None:
    before = HostState.now()
    user = OrdinaryUser(home=home)
    done = user.run(*RUN, "3.9.1,4.3.1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.startswith("not root: in a user namespace")
    without_elr, with_elr = records_in(home / "runs")
    for record in (without_elr, with_elr):
        manifest = read_manifest(RecordFolder(record))
        assert (manifest.power_loss_method, manifest.host["powers"]) == ("truncate", "user namespace")
        assert {path.stat().st_uid for path in (record, *record.rglob("*"))} == {home.stat().st_uid}
    lost, kept = read_verdict(RecordFolder(without_elr)), read_verdict(RecordFolder(with_elr))
    assert lost is not None
    assert kept is not None
    assert {(loss.cause, loss.committed) for loss in lost.losses} == {("last-replica-standing", True)}
    assert not kept.losses
    assert (lost.outcome, kept.outcome) == ("as-predicted", "as-predicted")
    assert HostState.now().left_since(before, without_elr.name, with_elr.name, str(home)) == []


@pytest.mark.parametrize(
    ("number", "status", "options"),
    [
        pytest.param(signal.SIGKILL, -9, ("--no-judge",), id="kill"),
        # Spark starts beside the run.
        pytest.param(signal.SIGKILL, -9, (), id="kill beside Spark", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 3, ("--no-judge",), id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 3, ("--no-judge",), id="TERM", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_ended_leaves_its_record_and_nothing_else(
    number: signal.Signals, status: int, options: tuple[str, ...], home: Path
) -> None:
    before, seen = HostState.now(), set(records_in(home / "runs"))
    run = OrdinaryUser(home=home).watch(*RUN, "3.9.1", *options)
    assert run.signal_once_it_says("power-loss broker", number) == status
    (record,) = set(records_in(home / "runs")) - seen

    def leftovers() -> list[str]:
        return HostState.now().left_since(before, record.name, str(home))

    # The kernel ends a killed run's pid namespace, a moment after its first process.
    wait_until(
        lambda: leftovers() == [], awaited="nothing to be left", timeout_s=60, last_seen=lambda: "; ".join(leftovers())
    )
    assert read_manifest(RecordFolder(record)).status == "interrupted"
    assert "Traceback" not in run.text()
