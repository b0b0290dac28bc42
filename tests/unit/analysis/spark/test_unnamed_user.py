"""Spark works for a user without an entry in /etc/passwd, as in a container with `-u`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.spark import gateway, java_start
from analysis.spark.class_archive import ClassArchive, class_archive
from analysis.spark.gateway import give_hadoop_a_user, what_failed
from analysis.spark.java_start import SETTINGS_OF_OTHERS, check_account_for_scripts
from analysis.spark.session import Jvm
from cluster.privileges import user_namespace
from ebbtide.errors import HarnessError
from ebbtide.java import Java

COUNTS = """
from analysis.spark.session import session
with session() as spark:
    print(spark.range(10).count(), spark.sparkContext.sparkUser())
"""

FAILED_LOGIN = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.hadoop.security.KerberosAuthException: failure to login
\tat org.apache.hadoop.security.UserGroupInformation.doSubjectLogin(UserGroupInformation.java:2073)
Caused by: javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name
\tat com.sun.security.auth.UnixPrincipal.<init>(UnixPrincipal.java:67)
"""


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gateway, java_start):
        monkeypatch.setattr(module, "account_name", lambda: None)
    for name in (*SETTINGS_OF_OTHERS, "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.spark
def test_spark_starts_and_works_for_a_user_without_an_entry_in_etc_passwd(tmp_path: Path) -> None:
    why_not = user_namespace.why_unavailable()
    if why_not is not None:
        pytest.skip(f"no user namespaces: {why_not}")
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-user=12345", "--map-group=12345"),
            *(sys.executable, "-c", COUNTS),
        ],
        env={key: value for key, value in os.environ.items() if key != "HADOOP_USER_NAME"} | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("10 12345\n", 0), done.stderr


class _Jvm:
    """Stands for the JVM behind a gateway; notes the user that Hadoop gets."""

    def __init__(self) -> None:
        self.user = "the host's"
        users = SimpleNamespace(createRemoteUser=str, setLoginUser=lambda user: setattr(self, "user", user))
        security = SimpleNamespace(UserGroupInformation=users)
        self.org = SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(security=security)))


def _user_of_hadoop() -> str:
    jvm = _Jvm()
    give_hadoop_a_user(SimpleNamespace(jvm=jvm))
    return jvm.user


@pytest.mark.usefixtures("unnamed")
def test_hadoop_gets_the_number_of_a_user_without_a_name_or_the_name_that_somebody_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _user_of_hadoop() == str(os.geteuid())
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    assert _user_of_hadoop() == "anna"


def test_hadoop_finds_a_user_with_a_name_itself() -> None:
    assert _user_of_hadoop() == "the host's"


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize("why", ["a master", "settings"])
def test_sparks_own_scripts_refuse_a_user_without_a_name_before_anything_starts(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.spark.java_start.ScratchFolder", lambda: pytest.fail("a folder was made"))
    if why == "settings":
        monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    with pytest.raises(HarnessError, match="an entry in /etc/passwd") as caught:
        Jvm("local[2]" if why == "settings" else "spark://host:7077")
    assert f"ebbtide:x:{os.geteuid()}:" in str(caught.value.next)


def test_sparks_own_scripts_take_a_user_with_a_name() -> None:
    check_account_for_scripts()


def test_a_failed_start_names_the_java_exceptions_and_what_the_jvm_printed() -> None:
    usual = 'Setting default log level to "WARN".\nTo adjust logging level use sc.setLogLevel(newLevel).\n'
    printed = f"{usual}\tat a.b\nno room\n"
    assert what_failed(Exception(FAILED_LOGIN), printed) == [
        "org.apache.hadoop.security.KerberosAuthException: failure to login",
        "Caused by: javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name",
        "no room",
    ]
    assert what_failed(HarnessError("the Java process ended", got="exit code 1"), "") == ["the Java process ended"]


def test_a_failed_start_of_a_jvm_that_has_ended_says_so() -> None:
    class Ended(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert what_failed(Ended(), "killed\n") == ["Ended: the Java process has ended", "killed"]


def test_without_a_home_folder_spark_starts_without_a_class_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_home() -> Any:
        raise HarnessError("this user has no home folder")

    monkeypatch.setattr("analysis.spark.class_archive.cache_dir", no_home)
    java = Java(executable=Path("/usr/bin/java"), version="17.0.1", major=17)
    assert class_archive(java, "/opt/spark/jars", tmp_path) == ClassArchive()
