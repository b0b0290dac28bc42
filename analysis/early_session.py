"""Starts a Spark session in the background, while a cluster is being taken down.

It is outside `analysis.reconcile`, so that nothing of Spark is imported before: that alone takes a
second.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ebbtide.errors import HarnessError
from ebbtide.signals import defer_signals

if TYPE_CHECKING:
    from analysis.reconcile.session import Jvm


class EarlySession:
    """Starts a session with `begin`, and waits for it with `wait`.

    From then on it is this process's session, until the block ends. However the block ends, a start
    that is under way is finished and closed, so that no JVM is left.
    """

    def __init__(self) -> None:
        self._starting: threading.Thread | None = None
        self._jvm: Jvm | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> None:
        """Start it, once, and return at once."""
        if self._starting is None:
            self._starting = threading.Thread(target=self._start, name="early Spark session", daemon=True)
            atexit.register(self.close)  # an interrupt may come just before `__exit__`
            self._starting.start()

    def wait(self, rows: int) -> None:
        """Wait until the session is ready.

        A session that does not suit so many rows is closed. A failed one is no problem:
        `analysis.reconcile.session.session` then starts another, and reports what is wrong.
        """
        if self._starting is None:
            return
        self._starting.join()
        from analysis.reconcile.session import suits_quick_start

        if not suits_quick_start(rows):
            self.close()

    def close(self) -> None:
        """End it; a second call does nothing."""
        with defer_signals():
            if self._starting is not None:
                self._starting.join()
            jvm, self._jvm = self._jvm, None
            if jvm is not None:
                jvm.close()

    def _start(self) -> None:
        from analysis.reconcile.session import LOCAL_MASTER, Jvm

        with contextlib.suppress(HarnessError):
            self._jvm = Jvm(LOCAL_MASTER)
