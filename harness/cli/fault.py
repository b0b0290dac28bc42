"""`ebbtide fault KIND [TARGET]`: one step of the scenario vocabulary, now, on a cluster that is up."""

from __future__ import annotations

import argparse
import tomllib
from typing import TYPE_CHECKING, Any, get_args

from harness.errors import ExitCode, Problems, UsageError

if TYPE_CHECKING:
    from harness.owner.messages import ClusterStatus
    from harness.record.steps import StepEntry
    from harness.scenario.model import StepSpec

_EXAMPLES = """examples:
  ebbtide fault power-loss 'broker(1)'
  ebbtide fault start 'broker(1)'
  ebbtide fault partition --groups 'broker(1) | broker(2), broker(3), controllers, clients'
  ebbtide fault heal
  ebbtide fault set-config --resource topic:t --config min.insync.replicas --value 1
  ebbtide fault kill 'leader(t-0)' --trigger 'isr = { partition = "t-0", size = 1 }'

docs/scenario-files.md says what each kind of step does, and which keys it takes: each key is an option here.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    from harness.scenario.model import StepKind

    parser.description = (
        "Carry a step out on a cluster that is up, and say whether it took effect (exit code 2: no proof)."
    )
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", metavar="KIND", choices=get_args(StepKind), help=", ".join(get_args(StepKind)))
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a role, such as 'leader(t-0)' or 'broker(1)'")
    parser.add_argument("--cluster", metavar="NAME", help="which, if several are up")
    for key, kind in _keys().items():
        flag, dest = "--" + key.replace("_", "-"), f"step_{key}"
        if "bool" in kind:
            parser.add_argument(flag, dest=dest, action="store_true", default=None, help=f"the step has `{key} = true`")
        else:
            parser.add_argument(flag, dest=dest, metavar=key.upper(), help=f"the step's key `{key}`")


def run(args: argparse.Namespace) -> ExitCode:
    """Have the owner carry it out, and tell what became of it."""
    from harness.owner.control import ask, only
    from harness.owner.messages import Fire

    step = _step(args)
    cluster = only(args.cluster)
    reply = ask(cluster.name, Fire(step=step))
    assert reply.step is not None
    return _tell(reply.step, cluster)


def _keys() -> dict[str, str]:
    """The keys of a step that are options, and the type of each."""
    import msgspec

    from harness.scenario.model import StepSpec

    fields = msgspec.structs.fields(StepSpec)
    return {one.encode_name: str(one.type) for one in fields if one.name not in ("step", "target")}


def _step(args: argparse.Namespace) -> StepSpec:
    """Raises `Problems` with every value that does not fit its key."""
    import msgspec

    from harness.scenario.check import check
    from harness.scenario.model import StepSpec

    raw: dict[str, Any] = {"step": args.kind}
    if args.target is not None:
        raw["target"] = args.target
    for key, kind in _keys().items():
        given = getattr(args, f"step_{key}")
        if given is not None:
            raw[key] = _value(key, kind, given)
    checked = check(raw, StepSpec)
    if checked.problems:
        raise Problems(f"the step {args.kind}", [*checked.problems], next="ebbtide fault --help")
    return msgspec.convert(checked.value, StepSpec)


def _value(key: str, kind: str, given: str | bool) -> Any:
    """What was typed, as a scenario file would have it: TOML, or with less to quote: `a, b | c` are two groups."""
    if isinstance(given, bool):
        return given
    if "Trigger" in kind:
        return _toml(f"{given}\n", key)
    if "tuple[tuple" in kind and not given.lstrip().startswith("["):
        return [[role.strip() for role in group.split(",")] for group in given.split("|")]
    if "tuple" in kind and not given.lstrip().startswith("["):
        return [role.strip() for role in given.split(",")]
    if any(word in kind for word in ("tuple", "int", "float")):
        return _toml(f"x = {given}\n", key)["x"]
    return given


def _toml(text: str, key: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("not TOML", where=f"--{key}", got=str(error), next="ebbtide fault --help") from None


def _tell(step: StepEntry, cluster: ClusterStatus) -> ExitCode:
    names = {int(name.rpartition("-")[2]): name for name in cluster.nodes}
    whom = " ".join(names.get(node, "clients") for node in step.nodes)
    what = f"{step.step} {whom}".rstrip()
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
