"""steps.jsonl: what each step did, when, and the proof that it took effect."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder, write_atomically
from ebbtide.record.node_times import NodeTimes, Span
from ebbtide.scenario.steps.step import BaseStep, StepProof, read_leniently
from ebbtide.scenario.steps.table import CUT_KINDS, HEALED_BY, KINDS, STEP_TYPES
from ebbtide.scenario.words import CLIENTS
from ebbtide.untrusted.files import read_file
from ebbtide.untrusted.values import decode_json

_BETWEEN = re.compile(r" [|>] ")
_NODE = re.compile(r"\b(?:broker|controller)-(\d+)\b|\bclients\b")


class CutSides(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of each side; `CLIENTS` stands for the clients. `one_way`: only from the first side to the second."""

    nodes: tuple[tuple[int, ...], ...]
    one_way: bool = False


def sides_in_words(whom: str) -> CutSides:
    """Return the sides that an older record has in words only: `broker-1 | broker-2, clients`."""
    return CutSides(
        nodes=tuple(tuple(int(node or CLIENTS) for node in _NODE.findall(side)) for side in _BETWEEN.split(whom)),
        one_way=" > " in whom,
    )


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a step that readers of records need; a kind has those of its scenario key.

    None: the step has no such parameter, or the record has another type of value there. Roles are texts, as in the
    scenario file.
    """

    name: str | None = None
    optional: bool | None = None
    target: str | None = None
    client: str | None = None
    from_: tuple[str, ...] | None = msgspec.field(name="from", default=None)
    to: tuple[str, ...] | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    directory: int | None = None
    api: str | None = None
    topic: str | None = None
    partition: str | None = None
    before: int | None = None
    type: str | None = None
    strategy: str | None = None
    expect_error: str | None = None
    config: str | None = None


STEPS = "steps.jsonl"
P = TypeVar("P", bound=StepProof)


class StepEntry(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One line of steps.jsonl.

    - `nodes` are the resolved targets' node ids. `whom` says it in words: `broker-1 | broker-2, clients` were cut
      from each other, `broker-1 > broker-2` one way. `sides` has the node ids of both; older records lack it.
    - `effect_ns` null: no proof that the step took effect.
    - `healed_ns` null: never healed, or nothing to heal.
    - `proof` holds `"probe": "ok"` and the figures that the probe measured. A power loss has `lost_bytes`, and for
      each log `logs: {"t-0": {"bytes_before", "bytes_after", "leo_before", "leo_after"}}`.
    - `of_node`: when each node's process ended, its log went and its process started, by node id. Older records
      lack it.
    - `parameters` are the step's own, as in the scenario file.
    - `state`, in a replay: the recorded state that the step waited for in addition to its trigger, and whether it was
      `reached`.
    """

    index: int
    step: str
    nodes: tuple[int, ...] = ()
    whom: str | None = None
    sides: CutSides | None = None
    trigger: dict[str, Any] = {}
    fired_ns: int | None = None
    effect_ns: int | None = None
    healed_ns: int | None = None
    proof: dict[str, Any] = {}
    of_node: dict[int, NodeTimes] = {}
    state: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    why: str | None = None

    def is_a(self, *kinds: type[BaseStep]) -> bool:
        """Whether the step is of one of these kinds; False for a word that is no kind of step."""
        kind = STEP_TYPES.get(self.step)
        return kind is not None and issubclass(kind, kinds)

    @cached_property
    def parted(self) -> CutSides | None:
        """The sides between which it cut or limited connections; None: nobody knows, or it did not."""
        if self.sides is None and self.step in CUT_KINDS and self.whom is not None:
            return sides_in_words(self.whom)
        return self.sides

    @cached_property
    def asked(self) -> Asked:
        """What the step asked for."""
        return read_leniently(Asked, self.parameters)

    @property
    def parts(self) -> tuple[StepEntry, ...]:
        """The parts of a composed step; empty if it is made of none, or they cannot be read."""
        try:
            return self.read_parts() or ()
        except UsageError:
            return ()

    def read_parts(self) -> tuple[StepEntry, ...] | None:
        """Return the parts of a composed step; None if it is made of none.

        Raises `UsageError` if they are not steps.
        """
        parts = self.proof.get("parts")
        if not isinstance(parts, list):
            return None
        try:
            return tuple(msgspec.convert({**one, "index": self.index}, StepEntry, str_keys=True) for one in parts)
        except (TypeError, msgspec.ValidationError) as error:
            raise UsageError("steps.jsonl is damaged", where=f"step {self.index}, its parts", got=str(error)) from None

    def figures(self, of: type[P]) -> P:
        """Return the proof as one of this type, which is empty for a step of a kind with another proof."""
        kind = STEP_TYPES.get(self.step)
        own = StepProof if kind is None else kind.Proof
        return read_leniently(of, self.proof) if issubclass(own, of) else of()

    @property
    def optional(self) -> bool:
        """Whether a run is still good where this step did not fire or took no effect."""
        return self.asked.optional is True

    @property
    def node(self) -> int | None:
        """The target, when there is exactly one."""
        return self.nodes[0] if len(self.nodes) == 1 else None

    def times_of(self, node: int) -> NodeTimes:
        """Return when the step ended, emptied and started a node.

        A record without `of_node` says of the whole step when it fired and took effect, so that each of its nodes
        gets this span. Nothing is known of a step without an effect.
        """
        kind = KINDS.get(self.step)
        if node in self.of_node or kind is None or node not in self.nodes:
            return self.of_node.get(node, NodeTimes())
        if self.fired_ns is None or self.effect_ns is None or self.effect_ns < self.fired_ns:
            return NodeTimes()
        whole = Span(first_ns=self.fired_ns, last_ns=self.effect_ns)
        return NodeTimes(
            ended=whole if kind.takes_down or kind.starts_again else None,
            log_gone=whole if kind.loses is not None else None,
            started=whole if kind.starts or kind.starts_again else None,
        )


def write_steps(record: RecordFolder, steps: list[StepEntry]) -> None:
    """Replace steps.jsonl at once; parameters are written beside the entry's own keys."""
    lines = []
    for entry in steps:
        row = msgspec.to_builtins(entry, str_keys=True)
        row = {**row.pop("parameters"), **row}
        if entry.node is not None:
            row["node"] = entry.node
        lines.append(msgspec.json.encode(row))
    write_atomically(record / STEPS, b"".join(line + b"\n" for line in lines))


def read_steps(record: RecordFolder) -> list[StepEntry] | None:
    """Return the steps of a record in order; None when steps.jsonl is missing.

    Accepts `node` and `nodes`. Raises `UsageError` that names the damaged line.
    """
    path = record / STEPS
    if not os.path.lexists(path):
        return None
    entries = []
    fields = set(StepEntry.__struct_fields__)
    for number, line in enumerate(read_file(path, what=STEPS).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = decode_json(line, dict[str, Any])
            known = {key: row[key] for key in fields & row.keys() if row[key] is not None}
            if "nodes" not in known and isinstance(row.get("node"), int):
                known["nodes"] = (row["node"],)
            if not isinstance(known.get("trigger", {}), dict):
                known["trigger"] = {"text": known["trigger"]}
            known["parameters"] = {key: row[key] for key in row.keys() - fields - {"node"}}
            entries.append(msgspec.convert(known, StepEntry, str_keys=True))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UsageError("steps.jsonl is damaged", where=f"{path}, line {number}", got=str(error)) from None
    return entries


def split_composed_steps(steps: Iterable[StepEntry]) -> list[StepEntry]:
    """Return the steps, with composed steps (restart, rolling, flap) split into parts.

    A part is a step like any other, with its own times and proof, under the index of the whole. An isolation becomes
    the partition that it is.
    """
    found: list[StepEntry] = []
    for step in steps:
        parts = step.read_parts()
        if parts is not None:
            found += _parts(step, parts)
        elif step.step == "isolate":
            found.append(msgspec.structs.replace(step, step="partition"))
        else:
            found.append(step)
    return found


def _parts(step: StepEntry, entries: Sequence[StepEntry]) -> list[StepEntry]:
    """Return the parts of a composed step, with the times at which a later part healed them."""
    healed = []
    for at, entry in enumerate(entries):
        healer = HEALED_BY.get(entry.step)
        ends = [
            later.effect_ns
            for later in entries[at + 1 :]
            if later.step == healer and (not later.nodes or set(entry.nodes) & set(later.nodes))
        ]
        healed.append(msgspec.structs.replace(entry, healed_ns=ends[0] if ends else step.healed_ns))
    return healed
