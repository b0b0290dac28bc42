"""Runs that end when they are told to: a cluster brought up for experiments, and one left up after its run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ebbtide.daemon.control import log_of
from harness.daemon.plain import plain
from harness.daemon.serving import Owned, Owner
from harness.runner.display import Display
from harness.runner.draws import Draws
from harness.runner.run import RunRequest, Standing, run_scenario
from harness.runner.session import End, Session

KEPT_DIR = "kept"
"""In a run's record: the steps that were carried out by hand after the run, on the cluster that it left up."""


def own_cluster(
    request: RunRequest, display: Display, *, name: str, tap_all: bool, tied_to: int | None, keep: bool = False
) -> Path:
    """Bring the scenario's cluster, topics and clients up and own them until the end; returns the record.

    With topics the run then ends as any: it settles and everything is read; `keep`: and the cluster stays until it
    is told to end once more. Without topics there is nothing to judge, and a signal is as good a way to end it as
    any. Raises as `run_scenario` does.
    """
    owners: list[Owner] = []

    def drive(session: Session) -> None:
        session.open(tap_all=tap_all)
        owned = Owned(
            name=name,
            run_id=session.run_id,
            folder=session.record,
            kafka=request.kafka,
            runtime=session.runtime,
            session=session,
            tapped=tap_all,
        )
        owners.append(Owner(owned, display, tied_to))
        if session.scenario.topics:
            owners[0].serve()
            session.finish()
        else:
            session.end = End(why_no_final_read="a plain cluster has nothing of the harness's own to read")
            with _signals_end(display):
                owners[0].serve()

    def release() -> None:
        for owner in owners:
            owner.release()

    keeper = Keeper(request.kafka, display, lambda _record: release(), name=name) if keep else None
    try:
        record = run_scenario(request, display, drive, keeper)
        log_of(name).unlink(missing_ok=True)
        return record
    finally:
        release()
        if keeper is not None:
            keeper.release()


class Keeper:
    """Owns a cluster whose run is over, as the `hold` of `run_scenario`; `first` is given the record before."""

    def __init__(self, kafka: str, display: Display, first: Callable[[Path], None], *, name: str) -> None:
        self._kafka = kafka
        self._display = display
        self._first = first
        self._name = name
        self._owner: Owner | None = None

    def __call__(self, standing: Standing) -> None:
        """Until the end. Raises `UsageError` when the name is taken."""
        self._first(standing.record)
        folder = standing.record / KEPT_DIR
        folder.mkdir()
        scenario, runtime, run_id = plain(self._kafka, standing.cluster), standing.runtime, standing.run_id
        session = Session(scenario, Draws(assignments={}), runtime, run_id, folder, self._display)
        session.join()
        owned = Owned(
            name=self._name,
            run_id=run_id,
            folder=folder,
            kafka=self._kafka,
            runtime=runtime,
            session=session,
            kept=True,
        )
        self._owner = Owner(owned, self._display)
        with _signals_end(self._display):
            self._owner.serve()
        session.close()

    def release(self) -> None:
        """Tell those who asked for the end that it has come."""
        if self._owner is not None:
            self._owner.release()


@contextlib.contextmanager
def _signals_end(display: Display) -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is inside, and nothing else."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        display.note("told to end by a signal")
