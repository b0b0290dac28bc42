"""Connects to the Java process of a Spark session, or lets Spark's scripts start one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from analysis.spark.java_start import JavaStart
from ebbtide.errors import HarnessError
from ebbtide.memory import how_ended
from ebbtide.privileges import account_name
from ebbtide.waiting import wait_until

_START_TIMEOUT_S = 600.0
_USUAL_LINES = ("Setting default log level to", "To adjust logging level use")
_LINES_MAX = 3


def connect(start: JavaStart) -> Any:
    """Return the gateway of a launched JVM, whose `proc` is the process.

    Raises `HarnessError` if the JVM ends, or does not answer in time.
    """
    process = start.process
    assert process is not None
    wait_until(
        lambda: start.connection_file.is_file() or process.poll() is not None,
        awaited="the JVM of Spark to listen",
        timeout_s=_START_TIMEOUT_S,
    )
    if not start.connection_file.is_file():
        raise HarnessError("the Java process ended", got=how_ended(process.returncode))
    # The port, and the secret with its length before it.
    content = start.connection_file.read_bytes()
    connection = {
        "PYSPARK_GATEWAY_PORT": str(int.from_bytes(content[:4])),
        "PYSPARK_GATEWAY_SECRET": content[8:].decode(),
    }
    with environment(connection):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = process
    return gateway


def start_by_scripts(conf: SparkConf, said: Path) -> Any:
    """Start a JVM by Spark's own scripts, which prints to the file `said`, and return its gateway."""
    with said.open("wb") as stderr:
        options = {"stdout": subprocess.DEVNULL, "stderr": stderr, "start_new_session": True}
        return launch_gateway(conf, options)  # type: ignore[no-untyped-call]


def give_hadoop_a_user(gateway: Any) -> None:
    """Give Hadoop in the JVM a user if the host has no name for the user of this process.

    Hadoop otherwise asks the host for the name, and fails, so that Spark reads no file. The name is
    that of HADOOP_USER_NAME, else the number of the user.
    """
    if account_name() is None:
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(os.environ.get("HADOOP_USER_NAME") or str(os.geteuid())))


def what_failed(error: Exception, stderr: str) -> list[str]:
    """Return the lines that say why Spark did not start: of the error, and of what the JVM printed."""
    try:
        lines = str(error).splitlines()
    except Exception:  # the JVM of a Java error has ended
        lines = [f"{type(error).__name__}: the Java process has ended"]
    # py4j's first line names only the call; the Java exception follows it.
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))] or lines[:1]
    printed = [line for line in stderr.splitlines() if not line.startswith(("\tat ", *_USUAL_LINES)) and line.strip()]
    return [*causes[:_LINES_MAX], *printed[-_LINES_MAX:]]


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block only: Spark's launcher reads these."""
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
