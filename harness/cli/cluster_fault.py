"""`ebbtide cluster fault KIND [TARGET]`: runs one step now, on a running cluster."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from ebbtide.errors import EbbtideError, ExitCode, Problems, UsageError
from harness.cli import options
from harness.cli.command import Args, Command, Group
from harness.cli.option_values import named_cluster

if TYPE_CHECKING:
    from ebbtide.daemon.messages import StepResult
    from ebbtide.record.steps import StepEntry
    from ebbtide.scenario.steps.step import StepSpec
    from ebbtide.scenario.steps.table import StepKind

_EXAMPLES = """examples:
  ebbtide cluster fault power-loss 'broker(1)'
  ebbtide cluster fault start 'broker(1)'
  ebbtide cluster fault partition \\
    --groups 'broker(1) | broker(2), broker(3), controllers, clients'
  ebbtide cluster fault heal
  ebbtide cluster fault set-config --resource topic:t \\
    --config min.insync.replicas --value 1
  ebbtide cluster fault kill 'leader(t-0)' \\
    --trigger 'isr = { partition = "t-0", size = 1 }'

`ebbtide cluster fault KIND --help` lists the options of a kind, and says what
proves that it took effect. The options are the keys of docs/scenario-steps.md.
"""

_CODES = {
    0: "it took effect; of a wire rule: it took effect, or is armed",
    2: "Kafka refused it, or there is no proof that it took effect",
    4: "wrong usage, or the step can do nothing now",
}


def command() -> Group:
    """Declare the verb's arguments."""
    from ebbtide.scenario.absent_words import hint_on_kind
    from ebbtide.scenario.steps.table import KINDS

    group = Group(
        "Run one step on a running cluster, and say whether it took effect.",
        epilog=_EXAMPLES,
        codes=_CODES,
        dest="kind",
        metavar="KIND",
        hint=hint_on_kind,
    )
    options.add_cluster_option_of_group(group)
    for kind, meaning in KINDS.items():
        proof = f"Proof that it took effect: {meaning.proof}."
        ends = {"-": "", "itself": " The effect ends with the step."}
        one = group.action(
            kind,
            help=meaning.does,
            description=f"{kind}: {meaning.does}. {_choice(kind)}".rstrip(),
            epilog=proof + ends.get(meaning.ended_by, f" The step {meaning.ended_by} ends the effect."),
            codes=_CODES,
        )
        _add_keys(one, kind)
        options.add_cluster_option(one)
        options.add_json_option(one)
    return group


def _choice(kind: StepKind) -> str:
    """Say which of the options of a kind go together."""
    from ebbtide.scenario.steps.network import BetweenStep
    from ebbtide.scenario.steps.table import KINDS, STEP_TYPES

    if issubclass(STEP_TYPES[kind], BetweenStep):
        return "It needs --groups, or both --from and --to."
    either = KINDS[kind].either
    return "" if either is None else f"It needs {' or '.join(map(_flag, either))}."


def _add_keys(command: Command, kind: StepKind) -> None:
    """Declare an option for each key of this kind of step, and its target."""
    from ebbtide.scenario.steps.table import KINDS, SHOWN, keys_of, types_of

    types = types_of(kind)
    needed, possible = keys_of(kind)
    for key in (*needed, *possible):
        flag, dest, must = _flag(key), f"step_{key}", key in needed
        shown, unset = SHOWN[kind][key], KINDS[kind].unset.get(key)
        if "tuple[tuple" in types[key]:
            shown += ", e.g. 'broker(1) | broker(2), clients'"
        if unset is not None:
            shown += f" (default: {unset})"
        if key == "target":
            command.argument("target", needed=must, metavar="TARGET", help=shown)
        elif "bool" in types[key]:
            command.flag(flag, dest=dest, default=None, help=shown)
        else:
            command.option(flag, dest=dest, metavar=key.upper(), needed=must, help=shown)


def run(args: Args) -> ExitCode:
    """Send the step to the cluster's daemon, and print what happened."""
    from ebbtide.daemon.control import ask, find_cluster
    from ebbtide.daemon.messages import Fire

    step = _read_step(args)
    cluster = find_cluster(named_cluster(args))
    reply = ask(cluster.name, Fire(step=step))
    assert reply.step is not None
    result = result_of(reply.step)
    if args.json:
        from ebbtide.daemon.messages import FaultOutput
        from harness.cli.output import print_json

        print_json(FaultOutput(result=result, step=reply.step))
    else:
        _print_result(reply.step, result)
    return ExitCode.AS_PREDICTED if result in ("took-effect", "armed") else ExitCode.INCONCLUSIVE


def result_of(step: StepEntry) -> StepResult:
    """Return what the entry of a step says about its effect."""
    if step.fired_ns is None:
        return "never-fired"
    if step.effect_ns is not None:
        return "took-effect"
    return "armed" if step.why is None else "no-proof"


def _read_step(args: Args) -> StepSpec:
    """Return the typed step. Raises `Problems` for values that do not fit their keys."""
    from ebbtide.scenario.mismatches import mismatches
    from ebbtide.scenario.plain_values import from_plain
    from ebbtide.scenario.steps.step import StepSpec
    from ebbtide.scenario.steps.table import SHOWN, help_of_kind, types_of

    problems: list[EbbtideError] = []
    raw: dict[str, object] = {"step": args.kind}
    if getattr(args, "target", None) is not None:
        raw["target"] = args.target
    for key, kind in types_of(args.kind).items():
        typed = getattr(args, f"step_{key}", None)
        if typed is not None:
            try:
                raw[key] = _parse_value(kind, typed)
            except tomllib.TOMLDecodeError:
                problems.append(
                    UsageError("not a TOML value", where=_flag(key), got=repr(typed), allowed=SHOWN[args.kind][key])
                )
    unread = {str(one.where).removeprefix("--").replace("-", "_") for one in problems}
    problems += [one for one in mismatches(raw, StepSpec) if one.where not in unread]
    if problems:
        raise Problems(f"the step {args.kind}", problems, next=help_of_kind(args.kind))
    return from_plain(raw, StepSpec)


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _parse_value(kind: str, typed: str | bool) -> Any:
    """Return a typed value as a scenario file would have it.

    The value is TOML, or the short form of a list: `a, b | c` are two groups. Raises `tomllib.TOMLDecodeError`.
    """
    if isinstance(typed, bool):
        return typed
    if "Trigger" in kind:
        return tomllib.loads(f"{typed}\n")
    if "tuple[tuple" in kind and not typed.lstrip().startswith("["):
        return [[role.strip() for role in group.split(",")] for group in typed.split("|")]
    if "tuple" in kind and not typed.lstrip().startswith("["):
        return [role.strip() for role in typed.split(",")]
    if any(word in kind for word in ("tuple", "int", "float")):
        return tomllib.loads(f"x = {typed}\n")["x"]
    return typed


def _print_result(step: StepEntry, result: StepResult) -> None:
    """Print whether the step took effect."""
    from ebbtide.scenario.steps.step import RequestProof, StepProof
    from ebbtide.scenario.steps.table import ADMIN_KINDS, help_of_kind

    # The target of an administrative request already says what is asked for.
    words = [step.whom] if step.step in ADMIN_KINDS and step.whom else [step.step, step.whom]
    what = " ".join(filter(None, words))
    lost = step.figures(StepProof).lost_bytes
    is_refused = step.asked.expect_error is None and step.figures(RequestProof).is_refused
    said: dict[StepResult, str | None] = {
        "never-fired": f"never fired: {step.why}",
        "took-effect": "took effect" + (f", {lost:,} bytes lost" if lost is not None else ""),
        "armed": "armed, and takes effect at the first request that matches",
        "no-proof": step.why if is_refused else f"NO PROOF that it took effect: {step.why}",
    }
    print(f"{what}: {said[result]}")
    if result in ("never-fired", "no-proof"):
        print(f"  next:    {help_of_kind(step.step)}")
