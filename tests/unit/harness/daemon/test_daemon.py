"""A daemon and the commands that talk to it: the socket, refusals, the end, and the verbs."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
from daemon_up import Up
from plain_steps import step_of, trigger_of

from ebbtide.daemon import control, starting
from ebbtide.daemon.control import (
    ask,
    cluster_statuses,
    daemon_pid,
    end,
    find_cluster,
    open_control_socket,
    sockets_dir,
)
from ebbtide.daemon.messages import AskStatus, Fire, NodeStatus, Reply
from ebbtide.errors import ExitCode, HarnessError, UsageError
from ebbtide.scenario.model import TopicSpec
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.validate_order import FaultNow
from ebbtide.scenario.words import CLIENTS, Duration
from harness.cli.main import main
from harness.daemon.client_place import client_environment, namespace_prefix
from harness.daemon.steps import _spread_replicas
from harness.runner.display import NodeState

pytestmark = pytest.mark.usefixtures("no_clusters")

AGAIN = "ebbtide cluster down one && ebbtide cluster up --kafka 4.3.1"


def test_a_status_says_how_the_nodes_and_partitions_are(up: Up) -> None:
    status = find_cluster(None)
    assert (status.name, status.kafka, status.bootstrap) == ("one", "4.3.1", ("10.99.0.1:9092",))
    assert status.nodes["broker-1"] == NodeStatus(id=1, role="broker", state="running", registration="unfenced")
    [partition] = status.partitions
    assert (partition.topic, partition.partition, partition.leader, set(partition.isr)) == ("t", 0, 2, {1, 2, 3})
    assert status.namespace == "/run/netns/ebbtide-run-1-clients"
    assert daemon_pid("one") == os.getpid()


def test_a_step_is_carried_out_and_its_entry_comes_back(up: Up) -> None:
    reply = ask("one", Fire(step=step_of("stop", target="leader(t-0)")))
    assert reply.step is not None
    assert (reply.step.step, reply.step.effect_ns) == ("stop", 2)
    assert find_cluster("one").steps == 1


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (step_of("kill", target="leader(nope-0)"), "unknown partition"),
        (step_of("kill", target="broker(9)"), "no broker of this id"),
        (step_of("hold-request", target="broker(1)", api="Fetch"), f"has no wire proxies(.|\n)*{AGAIN} --wire"),
        (step_of("set-clock", offset="+1h"), f"no node has the agent that sets its clock(.|\n)*{AGAIN} --clocks"),
    ],
)
def test_a_step_that_makes_no_sense_touches_nothing(up: Up, step: StepSpec, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ask("one", Fire(step=step))
    assert up.session.entries == []


def test_a_step_that_cannot_be_injected_says_why_and_the_cluster_stays(up: Up) -> None:
    with pytest.raises(HarnessError, match="no volume") as caught:
        ask("one", Fire(step=step_of("power-loss", target="broker(1)")))
    assert caught.value.where == "broker-1"
    assert find_cluster("one").name == "one"


def test_the_end_is_reported_once_it_has_come(up: Up) -> None:
    end("one")
    up.thread.join(60)
    assert up.ended == [None]
    assert cluster_statuses() == []


def test_the_end_of_whoever_it_is_tied_to_is_its_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    cluster = Up(tmp_path, reader)
    assert cluster.thread.is_alive()
    os.close(writer)
    cluster.thread.join(60)
    os.close(reader)
    assert cluster.ended == [None]


def test_a_run_that_fails_ends_its_owner_with_the_failure(up: Up) -> None:
    up.session.dies = HarnessError("broker-2 died by itself")
    up.thread.join(60)
    assert [str(error) for error in up.ended] == ["broker-2 died by itself"]
    with pytest.raises(HarnessError, match="ended instead of answering"):
        ask("one", AskStatus())


@pytest.mark.parametrize(
    "words",
    [b'{"type": "explode"}\n', b'{"type": "fire", "step": "\xff"}\n', b"\xff\n", b"[" * 100_000 + b"\n", b"\n"],
    ids=["no request", "a broken byte in a string", "a broken byte", "too deep", "empty"],
)
def test_a_caller_that_talks_nonsense_does_no_harm(up: Up, words: bytes) -> None:
    with control._open_connection("one", "a refusal") as connection:
        connection.send(words.rstrip(b"\n"))
        reply = msgspec.json.decode(connection.receive(), type=Reply)
    assert reply.refusal is not None
    assert reply.refusal.what == "the daemon cannot read this request"
    assert find_cluster("one").name == "one"


def test_a_name_that_is_taken_is_refused_and_a_dead_owners_is_not(up: Up) -> None:
    with pytest.raises(UsageError, match="a cluster of this name is up"), open_control_socket("one"):
        pass
    with pytest.raises(UsageError, match="a cluster of this name is up"):
        control.choose_name("one")
    end("one")
    up.thread.join(60)
    stale = sockets_dir() / "one.sock"
    with open_control_socket("one"):
        left = stale.with_name("left.sock")
        os.link(stale, left)
    os.rename(left, stale)
    assert control.cluster_names() == ["one"]
    assert cluster_statuses() == []
    assert control.cluster_names() == []
    assert control.choose_name(None) == "cluster-1"
    assert control.choose_name("one") == "one"


def test_which_cluster_is_meant_has_to_be_said_where_there_are_several(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    one = find_cluster(None)
    monkeypatch.setattr(control, "cluster_statuses", lambda: [one, one])
    with pytest.raises(UsageError, match="several clusters are up"):
        find_cluster(None)
    of_tests = msgspec.structs.replace(one, name="two", started_by="pytest")
    monkeypatch.setattr(control, "cluster_statuses", lambda: [of_tests, one])
    assert find_cluster(None) == one
    monkeypatch.setattr(control, "cluster_statuses", lambda: [one, one])
    with pytest.raises(UsageError, match="no cluster of this name is up") as caught:
        find_cluster("ohne")
    assert caught.value.allowed == "one, one (did you mean 'one'?)"
    monkeypatch.setattr(control, "cluster_statuses", list)
    with pytest.raises(UsageError, match="no cluster is up"):
        find_cluster(None)


@pytest.mark.parametrize("line", ["down", "fault stop broker(1)", "topic t2", "exec -- true"])
def test_a_cluster_of_another_program_is_taken_only_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run-of-it"
    folder.mkdir()
    cluster = Up(folder, started_by="the pytest session of process 7")
    assert main(["cluster", *line.split()]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "error: another program started every cluster that is up" in said
    assert "allowed: one (started by the pytest session of process 7)" in said
    assert f"next:    ebbtide cluster {line.split()[0]} " in said
    assert cluster.session.entries == []
    assert main(["cluster", "status"]) == ExitCode.AS_PREDICTED
    shown = capsys.readouterr().out
    assert "started:  by the pytest session of process 7" in shown
    assert "  record:   run-of-it\n" in shown
    assert main(["cluster", "down", "one"]) == ExitCode.AS_PREDICTED
    cluster.thread.join(60)


def test_commands_enter_the_clients_namespace_only_and_know_the_brokers(up: Up) -> None:
    status = find_cluster(None)
    assert namespace_prefix(status) == ["nsenter", "--net=/run/netns/ebbtide-run-1-clients", "--"]
    assert client_environment(status)["EBBTIDE_BOOTSTRAP"] == "10.99.0.1:9092"
    words = namespace_prefix(msgspec.structs.replace(status, powers="user namespace"))
    assert words[1:3] == [f"--user=/proc/{os.getpid()}/ns/user", "--preserve-credentials"]
    seen_from_here = Path("/proc", str(os.getpid()), "root", "run", "netns", "ebbtide-run-1-clients")
    assert words[3] == f"--net={seen_from_here}"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("cluster fault stop broker(1)", ExitCode.AS_PREDICTED, "stop broker-1: took effect"),
        ("cluster fault kill broker(1)", ExitCode.INCONCLUSIVE, "NO PROOF that it took effect: it is still there"),
        ("cluster status", ExitCode.AS_PREDICTED, "broker-1        running, unfenced"),
        ("cluster status --json", ExitCode.AS_PREDICTED, '"controllers":["10.99.0.100:9093"]'),
        ("cluster --cluster one status", ExitCode.AS_PREDICTED, "one: Kafka 4.3.1, 3 brokers, 0 controllers, runtime"),
        ("cluster status one", ExitCode.AS_PREDICTED, "one: Kafka 4.3.1, 3 brokers, 0 controllers, runtime"),
        ("cluster --cluster one down one", ExitCode.AS_PREDICTED, "one is down"),
        ("cluster fault --cluster one stop broker(1)", ExitCode.AS_PREDICTED, "stop broker-1: took effect"),
        ("cluster down", ExitCode.AS_PREDICTED, "one is down"),
    ],
)
def test_the_verbs_talk_to_the_owner(
    up: Up, capsys: pytest.CaptureFixture[str], line: str, code: ExitCode, says: str
) -> None:
    assert main(line.split()) == code
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            "kafka-topics.sh --list",
            "no console tools(.|\\n)*the path of yours, such as ~/kafka/bin/kafka-topics.sh",
        ),
        ("no-such-command", "no such executable file"),
    ],
)
def test_a_command_that_is_not_on_the_path_is_refused_with_what_there_is(
    up: Up, capsys: pytest.CaptureFixture[str], command: str, says: str
) -> None:
    assert main(["cluster", "exec", "--", *command.split()]) == ExitCode.USAGE
    assert re.search(says, capsys.readouterr().err)


ON_ONE = "  {:<10}ebbtide cluster fault {} --cluster one"


@pytest.mark.parametrize(
    ("faults", "in_force", "states", "offers"),
    [
        (
            ("partition --groups clients|broker(1)", "fill-disk broker(1)"),
            [("partition", CLIENTS), ("fill-disk", 1), ("kill", 1), ("pause", 2)],
            {"broker-1": ("down", "unfenced"), "broker-2": ("paused", None)},
            [
                ON_ONE.format("break:", "power-loss 'broker(3)'"),
                "  broker-1        down, unfenced until its session ends, within seconds",
                "  broker-2        paused",
                "  broken:   partition broker-1 | broker-2, clients",
                "  broken:   fill-disk broker-1",
                *(
                    ON_ONE.format("next:", step)
                    for step in ("heal", "resume 'broker(2)'", "mend-disk 'broker(1)'", "start 'broker(1)'")
                ),
            ],
        ),
        # Its volume works again, though nothing proved that.
        (("fill-disk broker(1)",), [], {}, [ON_ONE.format("break:", "power-loss 'broker(1)'")]),
        (
            ("fill-disk broker(1)",),
            [("fill-disk", 1)],
            {"broker-2": ("down", "fenced"), "broker-3": ("down", "registered")},
            [
                "  broker-2        down, fenced",
                "  broker-3        down, fenced",
                "  broken:   fill-disk broker-1",
                ON_ONE.format("next:", "mend-disk 'broker(1)'"),
            ],
        ),
        (
            ("hold-request broker(1) --api Fetch", "set-clock broker(1) --offset -3s"),
            [("hold-request", 1), ("set-clock", 1)],
            {"broker-1": ("running", "registered"), "broker-2": ("running", "shutting_down")},
            [
                ON_ONE.format("break:", "power-loss 'broker(1)'"),
                "  broker-1        running, fenced (starting)",
                "  broker-2        running, in controlled shutdown",
                "  broken:   hold-request broker-1, armed",
                "  broken:   set-clock broker-1",
                *(ON_ONE.format("next:", step) for step in ("release", "reset-clock")),
            ],
        ),
    ],
    ids=["everything", "a volume that works again", "no broker to break", "rules and clocks"],
)
def test_a_status_offers_the_steps_that_work_now(
    up: Up,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    faults: tuple[str, ...],
    in_force: list[tuple[str, int]],
    states: dict[str, tuple[str, str | None]],
    offers: list[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(up.daemon, "_refuse_unprepared", lambda _: None)
    assert {main(["cluster", "fault", *line.split()]) for line in faults} == {ExitCode.AS_PREDICTED}
    capsys.readouterr()
    up.session.in_force = [FaultNow(*one) for one in in_force]
    now = up.session.node_states() | {name: NodeState(*one) for name, one in states.items()}
    monkeypatch.setattr(up.session, "node_states", lambda: now)
    assert main(["cluster", "status"]) == ExitCode.AS_PREDICTED
    shown = capsys.readouterr().out.splitlines()
    assert [one for one in shown if re.match("  (bre|broken|broker-|next)", one) and "g, unfenced" not in one] == offers
    assert "  reach:    ebbtide cluster exec --cluster one -- CMD" in shown
    assert "  end:      ebbtide cluster down one" in shown


def test_of_two_volumes_that_were_filled_only_the_one_that_was_not_mended_is_broken(up: Up) -> None:
    entry = up.session.fire(step_of("fill-disk", target="brokers"))
    up.session.entries = [msgspec.structs.replace(entry, nodes=(1, 2), whom="broker-1, broker-2")]
    up.session.in_force = [FaultNow("fill-disk", 2)]
    status = find_cluster("one")
    assert [(fault.whom, fault.nodes) for fault in status.broken] == [("broker-2", (2,))]
    assert status.repairs == ("mend-disk 'broker(2)'",)


def test_the_keys_of_a_step_are_options(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[StepSpec] = []
    fire = up.session.fire
    monkeypatch.setattr(up.session, "fire", lambda step: (taken.append(step), fire(step))[1])
    assert main(["cluster", "fault", "partition", "--groups", "broker(1) | broker(2), clients"]) == 0
    assert main(["cluster", "fault", "partition", "--from", "broker(1)", "--to", '["broker(2)", "clients"]']) == 0
    assert main(["cluster", "fault", "set-config", "--resource", "topic:t", "--config", "x", "--value", "1"]) == 0
    assert main(["cluster", "fault", "set-config", "--resource", "topic:t", "--config", "x", "--delete"]) == 0
    assert main(["cluster", "fault", "wait", "--trigger", "after = '1s'", "--deadline-s", "2"]) == 0
    assert taken[:2] == [
        step_of("partition", groups=[["broker(1)"], ["broker(2)", "clients"]]),
        step_of("partition", from_=["broker(1)"], to=["broker(2)", "clients"]),
    ]
    assert [(step.value, step.delete) for step in taken[2:4]] == [("1", None), (None, True)]
    assert (taken[4].trigger, taken[4].deadline_s) == (trigger_of(after=Duration("1s")), 2)


@pytest.mark.parametrize(
    "line",
    [
        "cluster fault kill broker(1) --deadline-s soon",
        "cluster fault kill broker(1) --mode gently",
        "cluster fault rolling",
        "cluster fault heal broker(1)",
        "cluster status --cluster two",
        "cluster --cluster one status two",
        "cluster --cluster one up --cluster two",
        "cluster up brokers=9",
        "cluster up --controllers 2",
        "cluster up controllers=2",
        "cluster up controllers=2 quorum=static",
        "cluster up controllers=4 quorum=dynamic",
        "cluster up quorum=elastic",
        "cluster up log_dirs=4",
        "cluster up --kafka 3.8.1 quorum=dynamic --foreground",
        "cluster up --kafka 3.6.2 log_dirs=2 --foreground",
        "cluster up --kafka 2.8.0",
        "cluster up --cluster ../x",
        "cluster up unknown=1",
        "cluster up --keep-cluster",
        "cluster up healthy brokers=3",
        "cluster up healthy quorum=dynamic",
        "cluster up healthy last-replica-standing",
        "cluster topic t partitions",
        "cluster up no-such-scenario",
        "cluster down",
        "cluster exec -- true",
        "run last-replica-standing --keep-cluster --kafka 3.9.1,4.3.1",
        "run last-replica-standing --publish 0 --kafka 3.9.1,4.3.1",
        "run last-replica-standing --publish tls --kafka 4.3.1",
        "cluster up healthy --publish 70000",
        "run last-replica-standing --kafka 4.3.1 --keep-cluster --cluster a/b",
        "run last-replica-standing --kafka 4.3.1 --cluster one",
    ],
)
def test_a_wrong_command_line_starts_nothing(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == ExitCode.USAGE
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("code", [ExitCode.HARNESS_FAILED, ExitCode.USAGE])
def test_a_daemon_that_ended_with_an_error_reports_that_error(code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"print('preparing\\nerror: no such property\\n  got:     min.insync'); raise SystemExit({int(code)})"
    monkeypatch.setattr(starting, "COMMAND", (sys.executable, "-c", script))
    with pytest.raises(starting.DaemonEnded) as caught:
        starting.DaemonProcess([], "one", tied=True).await_up()
    first, got, log = caught.value.render().splitlines()
    assert (first, got) == ("no such property", "  got:     min.insync")
    assert log.endswith(f"(the daemon of the cluster ended: exit code {int(code)})")
    assert caught.value.exit_code == code


def test_an_owner_that_nobody_waits_for_any_longer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import signal; print('begun', flush=True); signal.pause()"
    monkeypatch.setattr(starting, "COMMAND", (sys.executable, "-c", script))

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    owner = starting.DaemonProcess([], "one", tied=False)
    with pytest.raises(KeyboardInterrupt):
        owner.await_up(interrupt)
    assert owner.exit_code() is not None


def test_partitions_are_spread_over_the_brokers() -> None:
    spread = _spread_replicas([1, 2, 3], TopicSpec(partitions=4, replication_factor=2))
    assert spread == (
        (1, 2),
        (2, 3),
        (3, 1),
        (1, 2),
    )
