"""Starts the Java process of a Spark session, and connects to it.

Spark's own scripts start a shell and a JVM that put the command together, and then a program that
starts the one that is wanted. Where nobody gave Spark or Hadoop settings of their own, the command
is always the same, so it is started at once; that takes 1 s less.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from analysis.reconcile.class_path import class_path
from ebbtide.account import account_name
from ebbtide.errors import HarnessError
from ebbtide.java import Java
from ebbtide.waiting import wait_until

_SETTINGS_OF_OTHERS = (
    *("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"),
)
"""The environment variables with settings that only Spark's scripts read."""
_START_TIMEOUT_S = 600.0
_USUAL_LINES = ("Setting default log level to", "To adjust logging level use")
_LINES_MAX = 3
_GATEWAY_SERVER = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED = (
    *("lang", "lang.invoke", "lang.reflect", "io", "net", "nio"),
    *("util", "util.concurrent", "util.concurrent.atomic"),
)
_OPENED_PACKAGES = (
    *(f"java.base/java.{name}" for name in _OPENED),
    *(f"java.base/{name}" for name in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")),
    *(f"java.base/sun.{name}" for name in ("security.action", "util.calendar")),
    "java.security.jgss/sun.security.krb5",
)
"""The packages of Java that Spark needs opened (JavaModuleOptions of Spark's launcher)."""
_OPTIONS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


def has_settings_of_others(spark_home: Path) -> bool:
    """Return whether somebody gave Spark or Hadoop settings, which Spark's scripts must read."""
    return (spark_home / "conf").is_dir() or any(os.environ.get(name) for name in _SETTINGS_OF_OTHERS)


def start_directly(
    java: Java, spark_home: Path, heap_mib: int, flags: Sequence[str], scratch: Path, stderr: IO[bytes]
) -> Any:
    """Start a JVM with these flags, and return its gateway, whose `proc` is the process.

    Raises `HarnessError` if the JVM ends, or does not answer in time.
    """
    connection_file = scratch / "gateway"
    process = subprocess.Popen(
        [
            str(java.executable),
            f"-Xmx{heap_mib}m",
            *flags,
            *_OPTIONS,
            _GATEWAY_SERVER,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        # In a session of its own, so that Ctrl-C and a closed terminal reach only this process, which then decides.
        start_new_session=True,
        env=os.environ
        | {
            "CLASSPATH": class_path(spark_home),  # 280 jars, which lists of processes need not show
            "SPARK_HOME": str(spark_home),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
        },
    )
    try:
        wait_until(
            lambda: connection_file.is_file() or process.poll() is not None,
            awaited="the JVM of Spark to listen",
            timeout_s=_START_TIMEOUT_S,
        )
        if not connection_file.is_file():
            raise HarnessError("the Java process ended", got=f"exit code {process.returncode}")
        # The port, and the secret with its length before it.
        content = connection_file.read_bytes()
        connection = {
            "PYSPARK_GATEWAY_PORT": str(int.from_bytes(content[:4])),
            "PYSPARK_GATEWAY_SECRET": content[8:].decode(),
        }
        with environment(connection):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except BaseException:
        process.kill()
        process.wait()
        raise
    gateway.proc = process
    return gateway


def start_by_scripts(conf: SparkConf, stderr: IO[bytes]) -> Any:
    """Start a JVM by Spark's own scripts, and return its gateway."""
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


def check_account_for_scripts() -> None:
    """Raise `HarnessError` if Spark's scripts would fail because the host has no name for this user."""
    if account_name() is None:
        raise HarnessError(
            "Spark's own scripts need a user with an entry in /etc/passwd",
            where=f"user {os.geteuid()}",
            got="no entry",
            next=f"as root: echo 'ebbtide:x:{os.geteuid()}:{os.getegid()}::/tmp:/bin/sh' >> /etc/passwd    "
            "(or use neither --master nor variables such as SPARK_CONF_DIR)",
        )


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
