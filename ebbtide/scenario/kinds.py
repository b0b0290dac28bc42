"""What each kind of step does, and how it is proven that it took effect: said once, for docs/faults.md and the command.

Backticks and the rest are Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ebbtide.scenario.model import StepKind
from ebbtide.scenario.order import HEALED_BY


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """`proof`: what is seen of the effect; without it the step proves nothing."""

    does: str
    proof: str


MEANINGS: Mapping[StepKind, Meaning] = {
    "kill": Meaning(
        does="SIGKILL",
        proof="the pid is gone, and the kernel says that SIGKILL ended it (waitpid)",
    ),
    "stop": Meaning(
        does="SIGTERM: Kafka's controlled shutdown",
        proof="the pid is gone, exit code 143 or 0; a crash on the way or a forced end is no proof",
    ),
    "pause": Meaning(
        does="SIGSTOP",
        proof="the process is in state T in /proc",
    ),
    "resume": Meaning(
        does="SIGCONT",
        proof="it was in state T, left it, and its threads had CPU time again",
    ),
    "start": Meaning(
        does="starts the process",
        proof="it was down, and runs; whether it is ready is asked of the metadata log",
    ),
    "restart": Meaning(
        does="a stop, then a start",
        proof="those of the stop and of the start",
    ),
    "rolling": Meaning(
        does="a stop, kill or power-loss and a start, one broker after the other; "
        "goes on once the ISR of every partition is whole again",
        proof="those of every part, and the whole ISR within `deadline_s`",
    ),
    "power-loss": Meaning(
        does="SIGKILL, then everything that was not fsynced is gone",
        proof="the pid is gone, the volume refused a write, and a file that was there, not fsynced, did not come back",
    ),
    "wipe-disk": Meaning(
        does="SIGKILL, then a new file system, formatted by Kafka's own tool for the same cluster: a replaced disk",
        proof="the pid is gone, no partition's folder is on the disk, its cluster id is the old one",
    ),
    "fill-disk": Meaning(
        does="takes the last byte of the node's volume",
        proof="a write is refused with ENOSPC",
    ),
    "read-only": Meaning(
        does="ends the file system's journal, as the kernel does after an I/O error",
        proof="a write is refused with EROFS",
    ),
    "fail-disk": Meaning(
        does="shuts the file system down under the running node",
        proof="a write is refused with EIO",
    ),
    "slow-disk": Meaning(
        does="freezes the volume for `delay` of every `period`: writes wait",
        proof="the volume was frozen, and then a write with its fsync took `delay`",
    ),
    "mend-disk": Meaning(
        does="frees, thaws or mounts the volume anew",
        proof="a write is taken",
    ),
    "partition": Meaning(
        does="drops IP packets between groups, or one way",
        proof="a probe packet of each cut pair does not arrive, and one of every other pair does",
    ),
    "isolate": Meaning(
        does="drops packets between a node and everyone, or those it is cut `from`",
        proof="as of a partition",
    ),
    "flap": Meaning(
        does="cuts and heals in turn",
        proof="those of each cut and each heal",
    ),
    "limit-bandwidth": Meaning(
        does="a token bucket for each pair between groups, or one way",
        proof="a transfer over each pair takes as long as the rate says, and probe packets pass",
    ),
    "heal": Meaning(
        does="removes every cut and limit",
        proof="a probe packet of every pair arrives, and the kernel knows no limit",
    ),
    "reassign": Meaning(
        does="asks for other replicas (AlterPartitionReassignments)",
        proof="a newer partition record with these replicas (less those being removed); "
        "a cancelled one: with nothing to add or remove",
    ),
    "elect": Meaning(
        does="asks for an election (ElectLeaders)",
        proof="Kafka's yes, and a newer partition record with a new leader epoch; "
        "preferred: with the first replica as leader",
    ),
    "set-config": Meaning(
        does="changes a config (IncrementalAlterConfigs)",
        proof="a newer config record with the value, or its deletion",
    ),
    "set-feature": Meaning(
        does="finalises a feature level (UpdateFeatures)",
        proof="a newer feature level record",
    ),
    "delete-topic": Meaning(
        does="deletes a topic (DeleteTopics)",
        proof="the topic's partitions are gone from the metadata log",
    ),
    "unregister": Meaning(
        does="ends a broker's registration (UnregisterBroker)",
        proof="a newer record that ends the registration",
    ),
    "hold-request": Meaning(
        does="stops requests of one Kafka API, or the answers to them, at a proxy in the node's namespace",
        proof="the first one that is held: none, no proof",
    ),
    "delay-request": Meaning(
        does="lets requests of one Kafka API, or the answers to them, go on later",
        proof="the first one that went on so late, and the delays measured",
    ),
    "drop-request": Meaning(
        does="closes the connection of requests of one Kafka API, or of the answers, instead of passing them on",
        proof="the first connection closed for one",
    ),
    "duplicate-request": Meaning(
        does="sends requests of one Kafka API twice in a row; the answer to the second ends at the proxy",
        proof="the first answer to a second one: the peer took it for a request of its own",
    ),
    "release": Meaning(
        does="lets what is held go, in order, and ends the rules",
        proof="bytes that were held went on; without a hold, the proxies ended the rules",
    ),
    "wait": Meaning(
        does="waits for its trigger",
        proof="the trigger fired",
    ),
}
_ENDS_ITSELF = frozenset({"restart", "rolling", "flap"})


def healed_by(kind: StepKind) -> str:
    """What ends the effect: a kind of step, `itself`, or `-` where there is nothing to end."""
    return HEALED_BY.get(kind) or ("itself" if kind in _ENDS_ITSELF else "-")
