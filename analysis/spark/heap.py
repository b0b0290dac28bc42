"""The memory of Spark's JVM: how much it gets, and the error that says it was too little."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import psutil

from ebbtide.errors import HarnessError, UsageError
from ebbtide.memory import how_ended

SETTING = "EBBTIDE_SPARK_MEMORY"
"""The environment variable with the heap of Spark's JVM, such as `4g` or `3000m`."""

_HEAP_MIB_MIN, _HEAP_MIB_MAX = 1024, 2048
_MIB = {"m": 1, "g": 1024}
_EXIT_CODE_OF_SPARK = 52
"""With it an executor ends that ran out of memory (SparkExitCode.OOM)."""
_OUT_OF_MEMORY = "OutOfMemoryError"


def heap_mib() -> int:
    """Return the heap of Spark's JVM in MiB: what `SETTING` says, else a quarter of the memory, 1 to 2 GiB.

    Raises `UsageError` if the setting is not a size.
    """
    asked = os.environ.get(SETTING)
    if not asked:
        return min(_HEAP_MIB_MAX, max(_HEAP_MIB_MIN, psutil.virtual_memory().total // 4 // 2**20))
    size = re.fullmatch(r"([1-9][0-9]{0,6})([mg])", asked.lower())
    if size is None:
        raise UsageError(
            "the memory of Spark's JVM is not a size",
            where=f"environment variable {SETTING}",
            got=asked,
            allowed="a number of MiB or GiB, such as 3000m or 4g",
        )
    return int(size[1]) * _MIB[size[2]]


def out_of_memory_error(
    error: Exception, *, heap_mib: int, said: Callable[[], str], exit_status: Callable[[], int | None]
) -> HarnessError | None:
    """Return the error to raise if Spark's JVM ran out of memory, else None.

    `error` is what a call on Spark raised; `said` returns the JVM's stderr, and `exit_status` its exit status, or
    None while it runs.
    """
    raised = _message(error)
    if _OUT_OF_MEMORY in raised:
        return _memory_error(raised, heap_mib)
    status = exit_status()
    if status is None:
        return None
    text = said()
    if status == _EXIT_CODE_OF_SPARK or _OUT_OF_MEMORY in text:
        return _memory_error(text, heap_mib)
    if status == -signal.SIGKILL:
        return HarnessError(
            "Spark's Java process was killed",
            got=how_ended(status),
            next=f"judge again with more free memory, or with a smaller heap: {SETTING}={max(512, heap_mib // 2)}m "
            "ebbtide analyze RUN",
        )
    return None


def _message(error: Exception) -> str:
    """Return the message of an error, which py4j asks of the JVM: empty if that has ended."""
    try:
        return str(error)
    except Exception:
        return ""


def _memory_error(text: str, heap_mib: int) -> HarnessError:
    line = next((one.strip() for one in text.splitlines() if _OUT_OF_MEMORY in one), _OUT_OF_MEMORY)
    return HarnessError(
        "Spark's Java process ran out of memory",
        got=f"{line[line.index(_OUT_OF_MEMORY) :][:200]}; its heap is {heap_mib} MiB",
        next=f"give it more: {SETTING}={2 * heap_mib}m ebbtide analyze RUN",
    )
