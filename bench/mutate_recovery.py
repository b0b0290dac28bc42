"""Mutates KIP-966's unclean recovery in the specification to check that its tests notice.

`python -m bench.mutate_recovery`, from the root of a checkout, runs all mutants; with names such as `choice-3` or
`variant`, those.

A mutant is one change of the text of a module of `analysis.spec`, in a copy of the package; the checkout stays as it
is. The table names the test that kills it. That test must pass with the original and fail with the mutant. A mutant
whose test passes has survived; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ebbtide.shown_text import plural

ROOT = Path(__file__).parents[1]
_RULE, _EXPLORED = "test_recovery.py", "test_unclean_recovery_explored.py"


class Mutant(NamedTuple):
    """One defect: the text of `module` that occurs once, what replaces it, and the test that fails then."""

    module: str
    defect: str
    before: str
    after: str
    test_file: str
    killer: str


def _choice(defect: str, before: str, after: str, killer: str) -> Mutant:
    return Mutant("unclean_recovery.py", defect, before, after, _RULE, killer)


def _variant(defect: str, before: str, after: str, killer: str) -> Mutant:
    return Mutant("kip966.py", defect, before, after, _RULE, killer)


def _model(module: str, defect: str, before: str, after: str, killer: str) -> Mutant:
    return Mutant(f"model/{module}.py", defect, before, after, _EXPLORED, killer)


_LONGEST = "test_the_longest_log_is_elected"
_NO_RECOVERY = "test_no_recovery_begins_where_the_kip_has_none"
_WAITS = "test_balanced_waits_for_every_last_known_elr_member_and_proactive_for_none"
_DOWN = "test_a_reply_of_a_broker_that_is_down_or_holds_no_replica_does_not_count"
_OTHER_EPOCH = "test_a_reply_of_another_leader_epoch_does_not_count"
_UNCLEAN = "test_a_recovery_is_an_unclean_election_that_keeps_the_other_last_known_elr_members"
_TABLE = "test_the_table_of_the_revision"
_NEW_CONTROLLER = "test_a_new_controller_knows_no_answer_and_the_recovery_begins_again"

MUTANTS: dict[str, Mutant] = {
    "choice-1": _choice("elects the shortest log", "max(counted, key=rank)", "min(counted, key=rank)", _LONGEST),
    "choice-2": _choice("ignores the last epoch", "reply.last_epoch, reply.log_end", "0, reply.log_end", _LONGEST),
    "choice-3": _choice(
        "puts the length before the epoch",
        "reply.last_epoch, reply.log_end_offset, -",
        "reply.log_end_offset, reply.last_epoch, -",
        _LONGEST,
    ),
    "choice-4": _choice("breaks ties backwards", "-replicas.index", "replicas.index", _LONGEST),
    "choice-5": _choice(
        "does not wait for LastKnownElr", "if strategy is UncleanElection.DISABLED:", "if False:", _WAITS
    ),
    "choice-6": _choice("waits in Proactive too", "if strategy is UncleanElection.DISABLED:", "if True:", _WAITS),
    "choice-7": _choice(
        "elects in Manual",
        "strategy is UncleanElection.MANUAL or awaited",
        "awaited",
        "test_manual_elects_nobody_whatever_the_replies",
    ),
    "choice-8": _choice(
        "takes a reply from before a restart",
        "if reply.broker_epoch != broker_epochs[reply.broker]:",
        "if False:",
        "test_a_reply_from_before_a_restart_does_not_count",
    ),
    "choice-9": _choice(
        "takes a reply of an old leader epoch",
        "if reply.current_leader_epoch != leader_epoch:",
        "if reply.current_leader_epoch > leader_epoch:",
        _OTHER_EPOCH,
    ),
    "choice-10": _choice(
        "takes a reply of a newer leader epoch",
        "if reply.current_leader_epoch != leader_epoch:",
        "if reply.current_leader_epoch < leader_epoch:",
        _OTHER_EPOCH,
    ),
    "choice-11": _choice(
        "takes a reply of a broker without a replica",
        "if reply.broker not in replicas:",
        "if False:",
        "test_the_choice_says_whom_it_awaits_and_why_a_reply_is_void",
    ),
    "choice-12": _choice(
        "takes a reply of a fenced broker",
        'return "fenced or not registered"\n    if reply.broker_epoch',
        "broker_epochs = {reply.broker: reply.broker_epoch}\n    if reply.broker_epoch",
        _DOWN,
    ),
    "choice-13": _choice(
        "counts a broker's first reply",
        "{reply.broker: reply for reply in replies}",
        "{reply.broker: reply for reply in reversed(replies)}",
        "test_the_last_reply_of_a_broker_counts",
    ),
    "choice-14": _choice(
        "waits for a replica that is removed",
        "frozenset(last_known) & set(replicas)",
        "frozenset(last_known)",
        "test_a_removed_replica_in_the_last_known_elr_is_not_awaited",
    ),
    "choice-15": _choice(
        "takes a void reply for an answer",
        "{reply.broker for reply in counted}",
        "{reply.broker for reply in replies}",
        "test_a_reply_from_before_a_restart_does_not_count",
    ),
    "choice-16": _choice(
        "leaves the repair out",
        "known = last_known_first and reply",
        "known = False and reply",
        "test_last_known_elr_members_may_go_before_longer_logs_of_others",
    ),
    "variant-1": _variant(
        "recovers a partition with a leader",
        "partition.leader != NO_LEADER or not cluster.recovery_manager:",
        "not cluster.recovery_manager:",
        _NO_RECOVERY,
    ),
    "variant-2": _variant(
        "recovers without the manager",
        "partition.leader != NO_LEADER or not cluster.recovery_manager:",
        "partition.leader != NO_LEADER:",
        "test_the_table_of_the_revision_with_the_manager",
    ),
    "variant-3": _variant(
        "recovers although an ELR member is live",
        "(partition.isr | partition.elr) & cluster.live or",
        "partition.isr & cluster.live or",
        _NO_RECOVERY,
    ),
    "variant-4": _variant(
        "begins a recovery in Manual",
        "cluster.live or cluster.unclean is UncleanElection.MANUAL:",
        "cluster.live:",
        _NO_RECOVERY,
    ),
    "variant-5": _variant(
        "lets Proactive wait for the fenced ELR",
        "        if cluster.unclean is UncleanElection.ENABLED:\n            return True\n",
        "",
        "test_a_proactive_recovery_keeps_the_fenced_elr_members",
    ),
    "variant-6": _variant(
        "lets Balanced pass over the fenced ELR",
        "        if partition.isr or partition.elr:\n            return False\n",
        "",
        _NO_RECOVERY,
    ),
    "variant-7": _variant(
        "begins although a LastKnownElr member is fenced",
        "return cluster.live >= set(partition.last_known) & set(partition.replicas)",
        "return True",
        _NO_RECOVERY,
    ),
    "variant-8": _variant(
        "empties LastKnownElr with the recovery",
        "last_known=self.remember(partition, isr, elr, broker, True, target)",
        "last_known=()",
        _UNCLEAN,
    ),
    "variant-9": _variant(
        "empties the ELR with the recovery",
        "elr = self.provisional_elr(partition, isr, target) if cluster.elr else NOBODY",
        "elr = NOBODY",
        "test_a_proactive_recovery_keeps_the_fenced_elr_members",
    ),
    "variant-10": _variant(
        "keeps the ELR at min ISR",
        "elr = self.provisional_elr(partition, isr, target) if cluster.elr else NOBODY",
        "elr = partition.elr",
        "test_a_recovery_that_brings_the_isr_to_min_isr_empties_elr_and_last_known_elr",
    ),
    "variant-11": _variant("records no unclean election", "recovering=True", "recovering=False", _UNCLEAN),
    "variant-12": _variant(
        "begins no leader epoch",
        "leader_epoch=partition.leader_epoch + 1",
        "leader_epoch=partition.leader_epoch",
        _UNCLEAN,
    ),
    "variant-13": _variant(
        "begins no partition epoch",
        "partition_epoch=partition.partition_epoch + 1",
        "partition_epoch=partition.partition_epoch",
        _UNCLEAN,
    ),
    "variant-14": _variant(
        "remembers the last leader after a recovery",
        "            last_known_leader=NO_LEADER,\n",
        "",
        _UNCLEAN,
    ),
    "variant-15": _variant(
        "elects any replica with the manager",
        "Election.ONLINE if cluster.recovery_manager else super()",
        "super()",
        _TABLE,
    ),
    "variant-16": _variant(
        "elects no unfenced replica without the manager",
        "Election.ONLINE if cluster.recovery_manager else super().automatic_election(cluster)",
        "Election.ONLINE",
        _TABLE,
    ),
    "variant-17": _variant(
        "elects the last known leader with the manager",
        "elects_last_leader=not cluster.recovery_manager",
        "elects_last_leader=True",
        _TABLE,
    ),
    "variant-18": _variant(
        "elects no last known leader without the manager",
        "elects_last_leader=not cluster.recovery_manager",
        "elects_last_leader=False",
        _TABLE,
    ),
    "variant-19": _variant(
        "elects a fenced last known leader",
        " and partition.last_known_leader in target.live:",
        " and partition.last_known_leader >= 0:",
        _TABLE,
    ),
    "variant-20": _variant(
        "passes over the fenced ELR without the manager",
        "node == NO_LEADER and not isr and not elr",
        "node == NO_LEADER",
        "test_without_the_manager_a_fenced_elr_member_blocks_all_but_an_unclean_election",
    ),
    "variant-21": _variant(
        "lets an operator name a fenced leader",
        "broker not in partition.replicas or broker not in cluster.live",
        "broker not in partition.replicas",
        "test_an_operator_may_name_the_leader_of_a_leaderless_partition",
    ),
    "model-1": _model(
        "control",
        "lets a new controller keep the answers",
        "tuple(control & ~w.ANSWER_BITS for control in controls)",
        "controls",
        _NEW_CONTROLLER,
    ),
    "model-2": _model(
        "control",
        "keeps an answer that a restart made void",
        "aged[broker] = control & ~w.ANSWER_BITS",
        "aged[broker] = control",
        "test_a_broker_that_fails_after_its_answer_may_be_elected_until_it_registers_again",
    ),
    "model-3": _model(
        "machine",
        "answers with an empty log",
        "(word & LOG) << w.ANSWER_AT",
        "0 << w.ANSWER_AT",
        "test_with_one_record_a_recovery_loses_only_what_every_last_known_elr_member_lost",
    ),
    "model-4": _model(
        "control",
        "keeps the answers of an older leader epoch",
        "aged[broker] = control & ~w.ANSWER_BITS\n                continue",
        "pass",
        "test_a_broker_that_fails_after_its_answer_may_be_elected_until_it_registers_again",
    ),
    "model-5": _model(
        "control",
        "asks one replica alone",
        "live = sorted(cluster.live)",
        "live = [] if any(control & w.ANSWERED for control in controls) else sorted(cluster.live)",
        "test_proactive_elects_with_any_replicas_that_answered",
    ),
    "model-6": _model(
        "machine",
        "forgives every loss of a recovery",
        "return bool(members) and all(promised & ~word for word in members)",
        "return True",
        "test_balanced_elects_outside_the_last_known_elr_and_loses_what_a_member_has",
    ),
}


def copy_with(folder: Path, mutant: Mutant | None) -> None:
    """Make `folder` a checkout in which analysis/spec is a copy with the mutant."""
    for path in ROOT.iterdir():
        if path.name not in ("analysis", ".git"):
            (folder / path.name).symlink_to(path)
    (folder / "analysis").mkdir()
    for path in (ROOT / "analysis").iterdir():
        if path.name != "spec":
            (folder / "analysis" / path.name).symlink_to(path)
    copy = folder / "analysis" / "spec"
    shutil.copytree(ROOT / "analysis" / "spec", copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        module = copy / mutant.module
        module.write_text(module.read_text().replace(mutant.before, mutant.after))


def passes(folder: Path, tests: Sequence[str]) -> bool | None:
    """Return whether the tests pass in a checkout; None if pytest could not run them."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    return {0: True, 1: False}.get(run.returncode)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants; 1 where one survives."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mutate_recovery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant such as choice-3, or all of a group: choice")
    args = parser.parse_args(argv)
    chosen = {
        name: mutant
        for name, mutant in MUTANTS.items()
        if not args.names or name in args.names or name.partition("-")[0] in args.names
    }
    if not chosen:
        parser.error(f"no mutant is called {' or '.join(args.names)}: there are {', '.join(MUTANTS)}")
    tests = sorted({f"tests/spec/{mutant.test_file}::{mutant.killer}" for mutant in chosen.values()})
    with tempfile.TemporaryDirectory() as folder:
        copy_with(Path(folder), None)
        if not passes(Path(folder), tests):
            print("the tests do not pass with the specification as it is")
            return 1
    survived = []
    for name, mutant in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            copy_with(Path(folder), mutant)
            passed = passes(Path(folder), [f"tests/spec/{mutant.test_file}::{mutant.killer}"])
        if passed is not False:
            survived.append(name)
        became = {False: f"killed by {mutant.killer}", True: "SURVIVED", None: "BROKEN"}[passed]
        print(f"{name:<11} {mutant.defect}: {became}", flush=True)
    print(f"{len(chosen) - len(survived)} of {plural(len(chosen), 'mutant')} killed")
    if survived:
        print(f"once more: python -m bench.mutate_recovery {' '.join(survived)}")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
