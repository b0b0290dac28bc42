"""The steps of a scenario file: which keys each kind takes, and orders that can do nothing."""

from __future__ import annotations

import re

import pytest
from checkout import ROOT
from scenario_problems import FILE, problems

from ebbtide.errors import Problems
from ebbtide.scenario.parse import parse
from ebbtide.scenario.steps.table import KINDS
from ebbtide.scenario.validate import validate
from ebbtide.scenario.validate_order import FaultNow, impossible_now

REASSIGN = 'step = "reassign"\npartition = "t-0"\n'


def test_a_role_may_name_a_partition_that_a_step_adds() -> None:
    added = 'step = "add-partitions"\ntopic = "t"\ncount = 3'
    kill = 'step = "kill"\ntarget = "leader(t-2)"'
    assert "unknown partition" in problems(kill)["steps[0].target"]
    assert problems(added, kill) == {}


def test_a_step_may_not_name_a_partition_that_a_later_step_adds() -> None:
    added = 'step = "add-partitions"\ntopic = "t"\ncount = 3'
    wait = 'step = "wait"\ntrigger = { isr = { partition = "t-2", size = 3 } }'
    for early in ('step = "kill"\ntarget = "leader(t-2)"', wait, REASSIGN.replace("t-0", "t-2") + "cancel = true"):
        (said,) = problems(early, added).values()
        assert "unknown partition" in said
    assert problems(added, wait) == {}


def test_partitions_that_kafka_refuses_to_add_are_not_there_later() -> None:
    refused = 'step = "add-partitions"\ntopic = "t"\ncount = 3\nexpect_error = "INVALID_PARTITIONS"'
    assert "unknown partition" in problems(refused, 'step = "kill"\ntarget = "leader(t-2)"')["steps[1].target"]


@pytest.mark.parametrize("count", [2, 3])
def test_a_later_step_adds_partitions_to_those_of_an_earlier_one(count: int) -> None:
    added = 'step = "add-partitions"\ntopic = "t"\ncount = '
    assert "4 to 100 (t has 3 after an earlier step)" in problems(added + "3", added + str(count))["steps[1].count"]
    assert problems(added + "3", added + "4") == {}


def step(kind: str, target: str | None = None, name: str | None = None) -> str:
    return "\n".join(
        line for line in (f'step = "{kind}"', target and f'target = "{target}"', name and f'name = "{name}"') if line
    )


SLOW = step("slow-disk", "broker(1)") + '\ndelay = "1s"\nperiod = "2s"'
ROLLING = step("rolling") + '\nmode = "restart"'


@pytest.mark.parametrize(
    "steps",
    [
        [step("heal")],
        [step("isolate", "broker(1)"), step("heal"), step("heal")],
        [step("start", "broker(1)")],
        [step("kill", "broker(1)"), step("start", "broker(2)")],
        [step("kill", "broker(1)"), step("start", "broker(1)"), step("start", "broker(1)")],
        [step("kill", "leader(t-0)", "k"), step("start", "step(k)"), step("start", "step(k)")],
        [step("kill", "controller"), step("start", "broker(1)")],
        [step("resume", "broker(1)")],
        [step("kill", "broker(1)"), step("resume", "broker(1)")],
        [step("mend-disk", "broker(1)")],
        [step("wipe-disk", "broker(1)"), step("kill", "broker(1)")],
        [step("stop", "leader(t-0)", "k"), step("pause", "step(k)")],
        [step("fill-disk", "broker(1)"), step("power-loss", "broker(1)")],
        [SLOW, step("fill-disk", "broker(1)")],
        [step("power-loss", "broker(1)"), step("power-loss", "broker(1)")],
        [step("wipe-disk", "leader(t-0)", "w"), step("power-loss", "step(w)")],
        [step("wipe-disk", "broker(1)"), step("wipe-disk", "broker(1)")],
        [step("pause", "broker(1)"), step("pause", "broker(1)")],
        [step("pause", "broker(1)"), step("stop", "broker(1)")],
        [step("pause", "leader(t-0)", "p"), step("restart", "step(p)")],
        [step("pause", "broker(1)"), step("kill", "broker(1)"), step("resume", "broker(1)")],
        [step("release")],
        [step("release", "broker(1)")],
        [step("isolate", "broker(1)"), 'step = "flap"\nfrom = ["brokers"]\nto = ["clients"]\ntimes = 1\nperiod = "1s"'],
    ],
)
def test_a_step_that_can_do_nothing_is_refused(steps: list[str]) -> None:
    (where,) = problems(*steps)
    assert where.startswith(f"steps[{len(steps) - 1}].")


@pytest.mark.parametrize(
    "steps",
    [
        [step("fail-disk", "broker(1)"), step("start", "broker(1)")],
        [step("read-only", "broker(1)"), step("kill", "broker(1)"), step("start", "broker(1)")],
        [step("fail-disk", "broker(1)"), step("restart", "broker(1)")],
        [step("fail-disk", "leader(t-0)", "f"), step("restart", "step(f)")],
        [step("fail-disk", "broker(1)"), ROLLING],
        [step("read-only", "leader(t-0)"), ROLLING],
        [step("fail-disk", "broker(1)"), step("rolling", "brokers") + '\nmode = "kill"'],
        [step("fail-disk", "broker(1)"), step("start", "brokers")],
        [step("fail-disk", "broker(1)"), step("upgrade") + '\nto = "4.4.0"'],
    ],
)
def test_a_start_of_a_node_with_a_dead_volume_is_refused_to_who_runs_it_and_not_to_who_judges_a_record(
    steps: list[str],
) -> None:
    (where,) = problems(*steps, to_run=True)
    assert where.startswith(f"steps[{len(steps) - 1}].")
    assert where in problems(*steps, strict=True)
    assert problems(*steps) == {}


def test_whoever_changes_a_schedule_or_a_cluster_to_run_it_is_refused_such_a_start() -> None:
    failed, restart = step("fail-disk", "broker(1)"), step("restart", "broker(1)")
    scenario = parse(FILE.replace("{steps}", f"[[steps]]\n{failed}\n[[steps]]\n{restart}"), file="x.toml")
    assert [one.where for one in validate(scenario)] == ["steps[1].target"]
    (found,) = impossible_now(scenario.steps[1], 1, [FaultNow("fail-disk", 1)])
    assert found.what == "a restart of a node with a volume that takes no writes"
    assert list(impossible_now(scenario.steps[1], 2, [FaultNow("fail-disk", 1)])) == []


@pytest.mark.parametrize(
    "steps",
    [
        [step("kill", "leader(t-0)"), step("start", "brokers")],
        [step("kill", "leader(t-0)"), step("kill", "leader(t-0)")],
        [step("kill", "broker(1)"), step("start", "broker(1)"), step("kill", "broker(1)")],
        [step("kill", "leader(t-0)", "k"), step("wipe-disk", "step(k)"), step("start", "step(k)")],
        [step("fill-disk", "broker(1)"), step("mend-disk", "broker(1)"), step("start", "broker(1)")],
        [step("fill-disk", "broker(1)"), step("start", "broker(1)")],
        [SLOW, step("mend-disk", "broker(1)")],
        [step("fail-disk", "broker(1)"), step("mend-disk", "broker(1)"), ROLLING],
        [step("fail-disk", "broker(1)"), step("restart", "broker(2)")],
        [step("fail-disk", "controller"), ROLLING],
        [step("fail-disk", "leader(t-0)"), step("restart", "leader(t-0)")],
        [step("fill-disk", "broker(1)"), ROLLING],
        [step("pause", "broker(1)"), step("kill", "broker(1)"), step("start", "broker(1)")],
        [step("kill", "broker(1)"), step("power-loss", "broker(1)"), step("wipe-disk", "broker(1)")],
        [step("power-loss", "broker(1)"), step("start", "broker(1)"), step("power-loss", "broker(1)")],
        ['step = "limit-bandwidth"\nfrom = ["brokers"]\nto = ["clients"]\nrate = "1mbit"', step("heal")],
        [step("isolate", "broker(1)"), step("partition") + '\nfrom = ["brokers"]\nto = ["clients"]', step("heal")],
    ],
)
def test_what_only_the_run_can_tell_is_accepted(steps: list[str]) -> None:
    assert problems(*steps, to_run=True) == {}


KILL_OF_THE_ACTIVE = step("kill", "controller")


@pytest.mark.parametrize(
    ("steps", "refused_of_one", "refused_of_three"),
    [
        ([KILL_OF_THE_ACTIVE, KILL_OF_THE_ACTIVE], True, False),
        ([step("pause", "controller"), step("stop", "controller")], True, False),
        ([KILL_OF_THE_ACTIVE, step("start", "controllers")], False, False),
        ([step("kill", "controller", "k"), step("start", "step(k)"), step("kill", "controller")], False, False),
        ([step("kill", "controller", "k"), step("kill", "step(k)")], True, True),
        ([step("kill", "controllers"), step("kill", "controllers")], True, True),
    ],
)
def test_the_active_controller_is_another_one_after_it_was_killed_where_there_are_several(
    steps: list[str], refused_of_one: bool, refused_of_three: bool
) -> None:
    assert bool(problems(*steps)) is refused_of_one
    assert bool(problems(*steps, cluster="cluster = { controllers = 3 }\n")) is refused_of_three


def test_an_isr_may_grow_beyond_the_replication_factor_where_the_schedule_reassigns() -> None:
    reassigned = REASSIGN + 'replicas = ["brokers"]'
    wait = 'step = "wait"\ntrigger = { isr = { partition = "t-0", size = 3 } }'
    small = FILE.replace("[topics.t]", "[topics.t]\nreplication_factor = 2\nmin_isr = 1")
    for steps, refused in (([wait], True), ([reassigned, wait], False)):
        text = small.format(steps="".join(f"[[steps]]\n{one}\n" for one in steps))
        if refused:
            with pytest.raises(Problems, match="t-0 has 2 replicas"):
                parse(text, file="x.toml")
        else:
            parse(text, file="x.toml")


def test_every_example_of_the_fault_reference_is_a_step_that_is_accepted() -> None:
    pages = (ROOT / "docs").glob("faults*.md")
    page = "".join(path.read_text("utf-8") for path in pages)
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    kinds = set()
    for example in examples:
        scenario = parse(FILE.format(steps=example), file="docs/faults.md")
        kinds |= {step.step for step in scenario.steps}
    assert {"partition", "isolate", "flap", "limit-bandwidth", "slow-disk", "duplicate-request"} <= kinds


def test_the_fault_reference_tells_of_every_kind_of_step() -> None:
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    listed = set(re.findall(r"^\| ([a-z-]+) \|", page, re.MULTILINE))
    assert set(KINDS) - {"wait"} <= listed


LATE = 'step = "hold-request"\ntarget = "clients"\napi = "Produce"\nlate = true\n'
RELEASE = 'step = "release"'


def test_only_a_held_request_may_be_late() -> None:
    assert problems(LATE, RELEASE) == {}
    assert problems(LATE.replace("hold-", "drop-"), RELEASE).keys() == {"steps[0].late"}
    ((where, said),) = problems(f'{LATE}direction = "response"', RELEASE).items()
    assert (where, "nobody would get a late answer" in said) == ("steps[0].late", True)
