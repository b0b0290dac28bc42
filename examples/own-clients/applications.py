"""Starts the programs of this folder, as the tests need them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
FIXED = ["--fixed"] if os.environ.get("ORDERS") == "fixed" else []
JARS = os.environ.get("KAFKA_JARS") or Path.home() / ".cache" / "ebbtide" / "kafka" / "4.3.1" / "jars"
"""The folder with the jars of a Kafka release; `ebbtide kafka fetch 4.3.1` fills this one."""
PYTHON_PRODUCER = [sys.executable, HERE / "producer.py"]
SHIPPER, INVOICER = [sys.executable, HERE / "shipper.py"], [sys.executable, HERE / "invoicer.py"]
JAVA_PRODUCER = ["java", "-cp", f"{JARS}/*", HERE / "OrderProducer.java"]
WAIT_S = 60.0


class Application:
    """A program that runs during a `with` block, and what it printed; `more`: its other arguments."""

    def __init__(self, words: Sequence[str | Path], bootstrap: Sequence[str], *more: str) -> None:
        self._words = [*words, ",".join(bootstrap), *more, *FIXED]
        self._printed = threading.Condition()
        self._lines: list[str] = []

    def __enter__(self) -> Application:
        self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(2 * WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join()

    def await_death(self) -> None:
        """Wait until it ends by itself."""
        self._process.wait(WAIT_S)

    def await_line(self, line: str) -> None:
        """Wait until it has printed this line."""
        with self._printed:
            if not self._printed.wait_for(lambda: line in self._lines, WAIT_S):
                raise AssertionError(f"{self._words[1]} did not print {line!r}, but {self._lines[-3:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._printed:
                self._lines.append(line.strip())
                self._printed.notify_all()
