"""`ebbtide fault KIND [TARGET]`: one step of the scenario vocabulary, now, on a cluster that is up."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from ebbtide.errors import EbbtideError, ExitCode, Problems, UsageError
from harness.cli.cluster_options import add_cluster, add_cluster_before, named_cluster
from harness.cli.command import Args, Command, Group

if TYPE_CHECKING:
    from ebbtide.record.steps import StepEntry
    from ebbtide.scenario.model import StepSpec
    from ebbtide.scenario.steps.table import StepKind

_EXAMPLES = """examples:
  ebbtide fault power-loss 'broker(1)'
  ebbtide fault start 'broker(1)'
  ebbtide fault partition --groups 'broker(1) | broker(2), broker(3), controllers, clients'
  ebbtide fault heal
  ebbtide fault set-config --resource topic:t --config min.insync.replicas --value 1
  ebbtide fault kill 'leader(t-0)' --trigger 'isr = { partition = "t-0", size = 1 }'

`ebbtide fault KIND --help` says what a kind takes, and what proves that it took effect. Its options are the keys that
docs/scenario-steps.md has for it.
"""


def command() -> Group:
    """Declare the verb's arguments."""
    from ebbtide.scenario.steps.table import KINDS

    group = Group(
        "Carry a step out on a cluster that is up, and say whether it took effect (exit code 2: no proof, 4: it could "
        "do nothing to the cluster as it is).",
        epilog=_EXAMPLES,
        dest="kind",
        metavar="KIND",
    )
    add_cluster_before(group)
    for kind, meaning in KINDS.items():
        healer = meaning.ended_by
        proof = f"Proof that it took effect: {meaning.proof}."
        one = group.action(
            kind,
            help=meaning.does,
            description=f"{kind}: {meaning.does}.",
            epilog=proof + (f" Ended by: {healer}." if healer != "-" else ""),
        )
        _add_keys(one, kind)
        add_cluster(one)
    return group


def _add_keys(command: Command, kind: StepKind) -> None:
    """An option for each key that a step of this kind may have, and its target without a flag."""
    from ebbtide.scenario.step_keys import SHOWN, keys_of

    types = _types()
    needed, possible = keys_of(kind)
    for key in (*needed, *possible):
        if key == "target":
            command.argument("target", needed=key in needed, metavar="TARGET", help=SHOWN[key])
            continue
        flag, dest, must = _flag(key), f"step_{key}", key in needed
        if "bool" in types[key]:
            command.flag(flag, dest=dest, default=None, help=SHOWN[key])
        else:
            shown = SHOWN[key] + (" (needed)" if must else "")
            command.option(flag, dest=dest, metavar=key.upper(), needed=must, help=shown)


def run(args: Args) -> ExitCode:
    """Have the owner carry it out, and tell what became of it."""
    from ebbtide.daemon.control import ask, only
    from ebbtide.daemon.messages import Fire

    step = _step(args)
    cluster = only(named_cluster(args))
    reply = ask(cluster.name, Fire(step=step))
    assert reply.step is not None
    return _tell(reply.step)


def _types() -> dict[str, str]:
    """The type of each key of a step."""
    import msgspec

    from ebbtide.scenario.model import StepSpec

    return {one.encode_name: str(one.type) for one in msgspec.structs.fields(StepSpec)}


def _step(args: Args) -> StepSpec:
    """Raises `Problems` with every value that does not fit its key."""
    from ebbtide.scenario.check import check
    from ebbtide.scenario.model import StepSpec
    from ebbtide.scenario.plain import from_plain
    from ebbtide.scenario.step_keys import SHOWN

    problems: list[EbbtideError] = []
    raw: dict[str, Any] = {"step": args.kind}
    if getattr(args, "target", None) is not None:
        raw["target"] = args.target
    for key, kind in _types().items():
        given = getattr(args, f"step_{key}", None)
        if given is not None:
            try:
                raw[key] = _value(kind, given)
            except tomllib.TOMLDecodeError:
                problems.append(UsageError("not TOML", where=_flag(key), got=repr(given), allowed=SHOWN[key]))
    checked = check(raw, StepSpec)
    problems += checked.problems
    if problems:
        raise Problems(f"the step {args.kind}", problems, next=f"ebbtide fault {args.kind} --help")
    return from_plain(checked.value, StepSpec)


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _value(kind: str, given: str | bool) -> Any:
    """What was typed, as a scenario file would have it: TOML, or with less to quote: `a, b | c` are two groups.

    Raises `tomllib.TOMLDecodeError`.
    """
    if isinstance(given, bool):
        return given
    if "Trigger" in kind:
        return tomllib.loads(f"{given}\n")
    if "tuple[tuple" in kind and not given.lstrip().startswith("["):
        return [[role.strip() for role in group.split(",")] for group in given.split("|")]
    if "tuple" in kind and not given.lstrip().startswith("["):
        return [role.strip() for role in given.split(",")]
    if any(word in kind for word in ("tuple", "int", "float")):
        return tomllib.loads(f"x = {given}\n")["x"]
    return given


def _tell(step: StepEntry) -> ExitCode:
    from ebbtide.scenario.steps.table import ADMIN_KINDS

    # Of a request, whom it is about says what is asked for, too.
    words = [step.whom] if step.step in ADMIN_KINDS and step.whom else [step.step, step.whom]
    what = " ".join(filter(None, words))
    if step.fired_ns is None:
        print(f"{what}: never fired: {step.why}")
        return ExitCode.INCONCLUSIVE
    if step.effect_ns is not None:
        lost = step.proof.get("lost_bytes")
        print(f"{what}: took effect" + (f", {lost} bytes gone" if lost is not None else ""))
        return ExitCode.AS_PREDICTED
    if step.why is None:
        print(f"{what}: armed, and takes effect when something comes by that it is about")
        return ExitCode.AS_PREDICTED
    print(f"{what}: NO PROOF that it took effect: {step.why}")
    return ExitCode.INCONCLUSIVE
