"""Runs a cluster by hand, or keeps it up after its run, until a request to end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ebbtide.daemon.control import log_of
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import PLAIN_CLUSTER
from ebbtide.scenario.model import ClusterSpec, Scenario
from harness.daemon.serving import ClusterDaemon, OwnedCluster
from harness.runner.display import Display
from harness.runner.ending import End
from harness.runner.run import ClusterAfterRun, RunRequest, run_scenario
from harness.runner.session import Draws, Session


def plain_scenario(kafka: str, cluster: ClusterSpec) -> Scenario:
    """Return the scenario of a plain cluster of release `kafka`."""
    return Scenario(
        name=PLAIN_CLUSTER,
        title="A cluster for experiments by hand",
        description="Its steps are those of `ebbtide cluster fault`.",
        kafka=(kafka,),
        cluster=cluster,
        topics={},
        producers=(),
        predictions=(),
    )


KEPT_DIR = "kept"
"""Folder in a run's record: the steps that were carried out by hand on the kept cluster after the run."""


def own_cluster(
    request: RunRequest,
    display: Display,
    *,
    name: str,
    tap_all: bool,
    set_clocks: bool = False,
    tied_to: int | None,
    keep: bool = False,
    started_by: str = "",
    up_again: str,
) -> Path:
    """Own the scenario's cluster and clients until the end, and return the record.

    A scenario with topics then ends like any run: it settles, and a final consumer reads everything. With `keep` the
    cluster stays up after that until a second request to end. Without topics there is nothing to judge, and a signal
    ends the run. Raises as `run_scenario` does.
    """
    daemons: list[ClusterDaemon] = []

    def drive(session: Session) -> None:
        session.open(tap_all=tap_all, set_clocks=set_clocks)
        owned = OwnedCluster(
            name=name,
            run_id=session.run_id,
            folder=session.record.path,
            kafka=request.kafka,
            runtime=session.runtime,
            session=session,
            tapped=tap_all,
            started_by=started_by,
            up_again=up_again,
        )
        daemons.append(ClusterDaemon(owned, display, tied_to))
        if session.scenario.topics:
            daemons[0].serve()
            session.finish()
        else:
            session.end = End(why_no_final_read="a plain cluster has no records of the harness to read")
            with _signals_end(display):
                daemons[0].serve()

    def release() -> None:
        for daemon in daemons:
            daemon.release()

    kept = KeptCluster(request.kafka, display, lambda _record: release(), name=name) if keep else None
    try:
        record = run_scenario(request, display, drive, kept)
        log_of(name).unlink(missing_ok=True)
        return record
    finally:
        release()
        if kept is not None:
            kept.release()


class KeptCluster:
    """Owns a cluster after its run is over, as the `hold` of `run_scenario`.

    Calls `first` with the record before.
    """

    def __init__(self, kafka: str, display: Display, first: Callable[[Path], None], *, name: str) -> None:
        self._kafka = kafka
        self._display = display
        self._first = first
        self._name = name
        self._owner: ClusterDaemon | None = None

    def __call__(self, standing: ClusterAfterRun) -> None:
        """Serve the cluster until a request to end it.

        Raises `UsageError` if its name is taken.
        """
        self._first(standing.record.path)
        folder = standing.record / KEPT_DIR
        folder.mkdir()
        scenario, runtime, run_id = plain_scenario(self._kafka, standing.cluster), standing.runtime, standing.run_id
        session = Session(scenario, Draws(assignments={}), runtime, run_id, RecordFolder(folder), self._display)
        session.join()
        owned = OwnedCluster(
            name=self._name,
            run_id=run_id,
            folder=folder,
            kafka=self._kafka,
            runtime=runtime,
            session=session,
            kept=True,
            up_again=f"ebbtide cluster up --kafka {self._kafka}",
        )
        self._owner = ClusterDaemon(owned, self._display)
        with _signals_end(self._display):
            self._owner.serve()
        session.close()

    def release(self) -> None:
        """Tell the callers that asked for the end that it has come."""
        if self._owner is not None:
            self._owner.release()


@contextlib.contextmanager
def _signals_end(display: Display) -> Iterator[None]:
    """End the block, and nothing else, on Ctrl-C and SIGTERM."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        display.note("ending: the process got a signal")
