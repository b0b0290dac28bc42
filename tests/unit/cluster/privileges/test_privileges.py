"""Privileges for a user who is not root: which way is chosen, and what each way passes on."""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.host import containers
from cluster.host.processes import identify
from cluster.privileges import helper_container, helper_inside, user_namespace
from cluster.privileges.choice import PrivilegeRequest, rerun_with_privileges
from cluster.privileges.helper_container import NoDaemon, Order, Unusable
from ebbtide import privileges
from ebbtide.command import COMMAND
from ebbtide.errors import HarnessError
from ebbtide.privileges import PRIVILEGES_VARIABLE
from ebbtide.waiting import wait_until

NO_DAEMON = "no Docker daemon at this address"
NO_NAMESPACES = "making a user namespace: Operation not permitted"


class _CommandStarted(Exception):
    pass


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Makes this process an ordinary user's on a host with or without a daemon and user namespaces."""
    tried: list[str] = []

    def install(*, daemon: bool, namespaces: bool, refusal: Unusable | None = None) -> list[str]:
        @contextlib.contextmanager
        def open_helper(_note: object) -> Iterator[Any]:
            tried.append("helper container")
            if refusal is not None:
                raise refusal
            if not daemon:
                raise NoDaemon(NO_DAEMON, next="sudo systemctl start docker")
            yield _Helper()

        def why_unavailable() -> str | None:
            tried.append("user namespace")
            return None if namespaces else NO_NAMESPACES

        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(helper_container, "open_helper", open_helper)
        monkeypatch.setattr(user_namespace, "why_unavailable", why_unavailable)
        monkeypatch.setattr(user_namespace, "rerun", _start_command)
        return tried

    return install


class _Helper:
    def run(self, command: Sequence[str], folders: Sequence[Path]) -> int:
        assert (*command,) == (*COMMAND, "run", "x")
        return 40 + len(folders)


def _start_command(command: Sequence[str]) -> None:
    assert (*command,) == (*COMMAND, "run", "x")
    raise _CommandStarted


def test_root_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert rerun_with_privileges(PrivilegeRequest(), ["run", "x"]) is None


def test_privileges_follow_from_the_user_id_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert privileges.current_privileges() == "root"
    monkeypatch.setenv(PRIVILEGES_VARIABLE, "user namespace")
    assert privileges.current_privileges() == "user namespace"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert privileges.current_privileges() == "none"


def test_a_docker_daemon_is_preferred_and_its_exit_code_passed_on(host: Callable[..., list[str]]) -> None:
    tried = host(daemon=True, namespaces=True)
    assert rerun_with_privileges(PrivilegeRequest(folders=(Path("runs"),)), ["run", "x"]) == 41
    assert tried == ["helper container"]


def test_without_a_daemon_the_command_goes_on_in_a_user_namespace(host: Callable[..., list[str]]) -> None:
    host(daemon=False, namespaces=True)
    with pytest.raises(_CommandStarted):
        rerun_with_privileges(PrivilegeRequest(), ["run", "x"])


def test_why_a_daemon_that_is_there_does_not_help_is_said(
    host: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a user of the docker group wonders why power is lost by truncate."""
    host(daemon=True, namespaces=True, refusal=Unusable("no image for a helper container", got="no jlink on this host"))
    with pytest.raises(_CommandStarted):
        rerun_with_privileges(PrivilegeRequest(), ["run", "x"])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "not root: not through the Docker daemon: no image for a helper container (no jlink on this host)"
    assert said[1].startswith("not root: in a user namespace")
    host(daemon=False, namespaces=True)
    with pytest.raises(_CommandStarted):
        rerun_with_privileges(PrivilegeRequest(), ["run", "x"])
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("runtime", "way"), [("local", "user namespace"), ("docker", "helper container")])
def test_a_named_runtime_leaves_one_way(host: Callable[..., list[str]], runtime: Any, way: str) -> None:
    tried = host(daemon=False, namespaces=False)
    with pytest.raises(HarnessError):
        rerun_with_privileges(PrivilegeRequest(runtime=runtime), ["run", "x"])
    assert tried == [way]


def test_where_no_way_is_open_one_error_says_all_that_is_missing(host: Callable[..., list[str]]) -> None:
    host(daemon=False, namespaces=False)
    with pytest.raises(HarnessError) as refused:
        rerun_with_privileges(PrivilegeRequest(), ["run", "x"])
    assert NO_DAEMON in str(refused.value.got)
    assert NO_NAMESPACES in str(refused.value.got)
    assert privileges.sudo_command() in str(refused.value.next)
    assert "sudo systemctl start docker" in str(refused.value.next)


def test_a_verb_that_can_do_without_privileges_goes_on(host: Callable[..., list[str]]) -> None:
    host(daemon=False, namespaces=False)
    assert rerun_with_privileges(PrivilegeRequest(needed=False), ["run", "x"]) is None


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            "user/max_user_namespaces",
            "15000",
            "run ebbtide outside of chroots and containers, installed where this user may read it",
        ),
    ],
)
def test_the_error_of_a_kernel_that_refuses_namespaces_names_the_setting_to_change(
    tmp_path: Path, name: str, value: str, typed: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(value + "\n")
    assert user_namespace.remedy(tmp_path) == typed


@pytest.fixture
def in_namespace() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a shell script in a user namespace."""
    why_not = user_namespace.why_unavailable()
    if why_not is not None:
        pytest.skip(f"no user namespaces: {why_not}")

    def run(script: str) -> subprocess.CompletedProcess[str]:
        command = user_namespace._command(["sh", "-c", script])
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    return run


def test_in_a_user_namespace_the_user_is_root_and_run_takes_new_entries_beside_the_old(
    in_namespace: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = in_namespace("id -u; mkdir /run/netns /run/ebbtide && ls /run; exit 7")
    assert done.returncode == 7, done.stderr
    user, *entries = done.stdout.split()
    assert user == "0"
    old = {path.name for path in Path("/run").iterdir()}
    assert set(entries) == old | {"netns", "ebbtide"}


def test_a_command_that_a_signal_ended_says_so_as_a_shell_does(
    in_namespace: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    assert in_namespace("kill -9 $$").returncode == 128 + 9


@pytest.mark.usefixtures("in_namespace")
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_signal_is_heard_once_in_the_user_namespace(number: signal.Signals) -> None:
    script = f"import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [{number}])\nprint('ready', flush=True)\n"
    script += f"print(signal.sigwait([{number}]) == {number}, signal.sigtimedwait([{number}], 0.3), flush=True)"
    outside = subprocess.Popen(
        user_namespace._command([sys.executable, "-c", script]),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert outside.stdout is not None
    assert outside.stdout.readline() == "ready\n"
    # As a terminal does it: to the whole process group.
    os.killpg(outside.pid, number)
    with outside.stdout:
        assert outside.stdout.read() == "True None\n"
    assert outside.wait(60) == 0


@pytest.mark.usefixtures("in_namespace")
def test_with_the_process_outside_everything_in_the_namespaces_dies(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"setsid sleep 1000 >{pipe} & echo ready; wait"
    outside = subprocess.Popen(user_namespace._command(["sh", "-c", script]), stdout=subprocess.PIPE, text=True)
    # It reads to its end once the last writer is gone.
    with pipe.open("rb") as reader:
        assert outside.stdout is not None
        assert outside.stdout.readline() == "ready\n"
        outside.kill()
        assert select.select([reader], [], [], 10)[0], "a process in the namespaces lives on"
        assert reader.read() == b""
    outside.stdout.close()
    outside.wait(60)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://user@host"])
def test_a_daemon_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    assert "not on this machine" in str(helper_container.why_unavailable())
    with pytest.raises(Unusable) as refused, helper_container.open_helper(print):
        pass
    assert "--runtime local" in str(refused.value.next)


class _Client:
    def __init__(self, **facts: object) -> None:
        self._facts = facts

    def info(self) -> dict[str, object]:
        return self._facts

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("facts", "because"),
    [
        ({"OperatingSystem": "Docker Desktop"}, "not on this machine"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "not run as root"),
    ],
)
def test_a_daemon_that_cannot_help_is_refused(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, object], because: str
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(containers, "connect", lambda: _Client(**facts))
    assert because in str(helper_container.why_unavailable())


def test_a_kernel_that_cannot_share_open_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(platform, "release", lambda: "5.4.0-generic")
    assert helper_container.why_unavailable() == "a helper container needs Linux 5.6 (5.4.0-generic)"


@pytest.mark.parametrize(
    ("seen", "error"), [("0", Unusable), (os.readlink("/proc/self/ns/mnt"), None)], ids=["elsewhere", "here"]
)
def test_a_helper_goes_nowhere_unless_it_sees_the_users_own_process(
    seen: str, error: type[Unusable] | None, tmp_path: Path
) -> None:
    (tmp_path / "nsenter").write_text("#!/bin/sh\necho entered $*\n")
    (tmp_path / "nsenter").chmod(0o755)
    me = identify(os.getpid())
    done = subprocess.run(
        ["/bin/sh", "-c", helper_container._SCRIPT, "ebbtide-helper", str(me.pid), me.boot_id, seen, "python"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if error is None:
        assert done.stdout.startswith(f"entered -t {me.pid} -m -r -- ")
    else:
        assert isinstance(helper_container._ended_early_error(done.stdout.strip()), error)


def test_a_helper_that_was_killed_is_no_reason_to_run_again_in_another_way() -> None:
    assert not isinstance(helper_container._ended_early_error(""), Unusable)


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[bytes], socket.socket]]]:
    """Carries a shell script out as the inside of a helper container does; gives it and our end of the socket."""
    ends: list[socket.socket] = []
    process: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        ends.extend((ours, theirs))
        ours.settimeout(20)
        order = Order(
            process=identify(os.getpid()),
            control=theirs.fileno(),
            command=("sh", "-c", script),
            folders=(str(tmp_path),),
            user=65534,
            group=65534,
        )
        command = [sys.executable, "-m", "cluster.privileges.helper_inside", msgspec.json.encode(order).decode()]
        process.append(subprocess.Popen(command))
        return process[0], ours

    yield start
    for end in ends:
        end.close()
    for one in process:
        one.kill()
        one.wait()


@pytest.mark.root
def test_the_inside_of_a_helper_gives_the_exit_code_and_what_it_made(
    helper: Callable[[str], tuple[subprocess.Popen[bytes], socket.socket]], tmp_path: Path
) -> None:
    made = tmp_path / "runs" / "made"
    inside, ours = helper(f"mkdir {made.parent}; echo ${PRIVILEGES_VARIABLE} >{made}; exit 5")
    assert ours.recv(1) == bytes([5])
    assert inside.wait(60) == 5
    assert made.read_text() == "helper container\n"
    assert {path.stat().st_uid for path in (made, made.parent)} == {65534}


@pytest.mark.root
def test_a_signal_over_the_socket_reaches_the_command(
    helper: Callable[[str], tuple[subprocess.Popen[bytes], socket.socket]], tmp_path: Path
) -> None:
    _, ours = helper(f"trap 'exit 9' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done")
    wait_until((tmp_path / "ready").exists, awaited="the command to run", timeout_s=20)
    ours.send(bytes([signal.SIGTERM]))
    assert ours.recv(1) == bytes([9])


@pytest.mark.root
def test_when_the_socket_closes_the_command_ends_as_on_sigterm(
    helper: Callable[[str], tuple[subprocess.Popen[bytes], socket.socket]], tmp_path: Path
) -> None:
    inside, ours = helper(f"trap 'exit 9' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done")
    wait_until((tmp_path / "ready").exists, awaited="the command to run", timeout_s=20)
    ours.close()
    assert inside.wait(20) == 9


@pytest.mark.root
def test_only_what_root_made_since_is_handed_over(tmp_path: Path) -> None:
    elsewhere, runs = tmp_path / "elsewhere", tmp_path / "runs"
    elsewhere.touch()
    runs.mkdir()
    (runs / "others").touch()
    os.chown(runs / "others", 1234, 1234)
    (runs / "link").symlink_to(elsewhere)
    helper_inside.hand_over(runs, 65534, 65534, (runs / "link").lstat().st_ctime_ns)
    assert (runs / "link").lstat().st_uid == 65534
    assert elsewhere.stat().st_uid == 0
    assert (runs / "others").stat().st_uid == 1234
    (runs / "later").touch()
    helper_inside.hand_over(runs, 65534, 65534, (runs / "later").stat().st_ctime_ns + 1)
    assert (runs / "later").stat().st_uid == 0


def test_root_of_a_user_namespace_keeps_the_home_of_a_user_without_HOME(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    started: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    user_namespace.rerun(["true"])
    assert started[0][2]["HOME"] == str(Path.home())
