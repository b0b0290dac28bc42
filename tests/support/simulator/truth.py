"""The truth of a history: which election lost each record, and what the correct protocol allows.

The definitions are those of docs/causes.md: the guilty election is the first that led without the record after the
last that led with it; each replica's own fate for this record decides.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from simulator.clients import Send
from simulator.controller import ElectionMade
from simulator.history import Answer
from simulator.leads import Candidate, Lead
from simulator.reigns import Reigns
from simulator.replica import Entry, Replica
from simulator.script import MS

if TYPE_CHECKING:
    from simulator.simulation import Broker, Simulation


@dataclass(frozen=True)
class Missing:
    """A record of a partition that is gone; `read`: a consumer or an HW showed that it was committed.

    `until`: the order of the last election that may be guilty; None: any.
    """

    partition: int
    entry: Entry
    read: bool
    until: int | None = None


class Truth:
    """What really happened to every record."""

    def __init__(self, lacks: frozenset[str] = frozenset()) -> None:
        self._lacks = lacks
        self._is_measured = not lacks & {"log-ends", "steps"}
        self.entries: dict[int, list[Entry]] = {}
        self.leads: dict[int, list[Lead]] = {}
        self._elected: dict[int, Lead] = {}
        self._writers: dict[int, int] = {}
        self.reigns = Reigns()
        self._lost_as_it_joined: set[tuple[int, int]] = set()
        self._stale_joins: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def may_have_another_writer(self, sim: Simulation, number: int, send: Send) -> bool:
        """Return whether times alone do not show which leader wrote a record: two of them may have led meanwhile."""
        assert send.done_at is not None
        return self.reigns.count_within(sim, number, send.sent_at - _SLACK, send.done_at + _SLACK) > 1

    def stood_twice_at_its_offset(self, number: int, entry: Entry) -> bool:
        """Return whether a retry wrote the value at the same offset in another epoch: to evidence it is one record."""
        twins = [one for one in self.entries[number] if (one.value, one.offset) == (entry.value, entry.offset)]
        return len(twins) > 1

    def appended(self, entry: Entry, replica: Replica) -> None:
        """Note a new record."""
        self.entries.setdefault(replica.number, []).append(entry)
        self._writers[entry.number] = replica.broker

    def elected(self, election: ElectionMade, sim: Simulation) -> None:
        """Note which records an elected broker lacks, in case that it never leads."""
        broker = sim.brokers[election.after.leader]
        replica = broker.replicas.get(election.partition)
        if broker.up:
            self.reigns.elected(election)
        if replica is not None:
            self._elected[election.order] = self._lead_of(election, replica, sim)

    def led(self, election: ElectionMade, replica: Replica, sim: Simulation) -> None:
        """Note that an elected broker began to lead, and which records it lacks."""
        self.reigns.led(election, sim.now)
        self.leads.setdefault(replica.number, []).append(self._lead_of(election, replica, sim))

    def _lead_of(self, election: ElectionMade, replica: Replica, sim: Simulation) -> Lead:
        has = frozenset(entry.number for entry in replica.log)
        others = {
            node: broker.replicas[replica.number]
            for node, broker in sim.brokers.items()
            if replica.number in broker.replicas
        }
        logs = {node: {entry.number for entry in other.log} for node, other in others.items()}
        nodes = {*election.before.replicas, replica.broker}
        fates = {
            entry.number: {
                node: "N"
                if node not in others
                else "H"
                if entry.number in logs[node]
                else others[node].fates.get(entry.number, "N")
                for node in nodes
            }
            for entry in self.entries.get(replica.number, ())
            if entry.number not in has
        }
        return Lead(election, has, fates)

    def joined_stale(self, sim: Simulation, leader: Replica, joiner: int, *, allowed: bool) -> None:
        """Note that a broker entered the ISR by a request from before its disk lost records."""
        fate = "S" if allowed else "V"
        replica = sim.brokers[joiner].replicas.get(leader.number)
        if replica is None:
            return
        if allowed:
            self._stale_joins[leader.number].append((joiner, sim.now))
        for entry in leader.log[len(replica.log) :]:
            if replica.fates.get(entry.number) == "D":
                replica.fates[entry.number] = fate
                if self._lost_disk(sim, joiner, sim.now - _SLACK, sim.now):
                    self._lost_as_it_joined.add((joiner, entry.number))

    def guilty(self, missing: Missing, swapped: frozenset[int] = frozenset()) -> Candidate | None:
        """Return the guilty election of a lost record: the first without it after the last with it.

        The winners of elections in `swapped` are taken to have led if they did not, and the other way round.
        """
        found: Candidate | None = None
        entry = missing.entry
        for lead in self._leads_of(missing):
            if lead.election.order <= entry.reign or lead.led is (lead.election.order in swapped):
                continue
            if entry.number in lead.has:
                found = None
            elif found is None:
                # A deposed leader may append later.
                unseen = {**dict.fromkeys(lead.election.before.replicas, "N"), self._writers[entry.number]: "H"}
                found = Candidate(lead.election, lead.fates.get(entry.number, unseen))
        return found

    def _leads_of(self, missing: Missing) -> list[Lead]:
        found = self.leads.get(missing.partition, [])
        return found if missing.until is None else [one for one in found if one.election.order <= missing.until]

    def right_answers(self, sim: Simulation, missing: Missing) -> frozenset[Answer]:
        """Return every right answer for a record that is gone; none if all leaders up to the last one had it."""
        found = self.guilty(missing)
        if found is None:
            return frozenset({("unexplained", None)} if missing.until is None else ())
        answers = self._answers_for(sim, missing, found)
        # The winner may have learned of several elections at once: each of them made it the leader.
        at, same = found.election.metadata_offset, self._same_leadership(found.election)
        return answers | {(cause, one) for cause, named in answers if named == at for one in same}

    def _same_leadership(self, election: ElectionMade) -> list[int]:
        """Return the elections of the same broker, epoch after epoch, right before an election."""
        found: list[int] = []
        for one in reversed(self.all_elections[: election.order]):
            if one.partition != election.partition:
                continue
            first = self.all_elections[found[-1]] if found else election
            if one.after.leader != first.after.leader or one.after.leader_epoch + 1 != first.after.leader_epoch:
                break
            found.append(one.order)
        return [self.all_elections[order].metadata_offset for order in found]

    def _answers_for(self, sim: Simulation, missing: Missing, found: Candidate) -> frozenset[Answer]:
        entry = missing.entry
        at = found.election.metadata_offset
        answers = set(self._by_table(entry, found))
        if not answers or found.fates.get(found.election.after.leader) == "K":
            answers |= {("unexplained", at), *self._with_doubtful_leads_swapped(sim, missing)}
            answers |= self._if_disks_took_it(sim, missing, found)
            answers |= self._if_earlier_winners_lacked_it(sim, missing, found)
        if entry.acks != -1:
            if entry.committed_at is None:
                return frozenset({("uncommitted-at-failover", at)})
            if not missing.read:
                # Nothing need show that it was committed; which election lost it then is another question.
                answers.add(("uncommitted-at-failover", None))
        return frozenset(answers)

    def _with_doubtful_leads_swapped(self, sim: Simulation, missing: Missing) -> set[Answer]:
        """Return what would be allowed if other winners had led, where nothing shows which of them did."""
        doubtful = [lead.election.order for lead in self._leads_of(missing) if lead.is_doubtful][:4]
        answers: set[Answer] = set()
        for count in range(1, len(doubtful) + 1):
            for swapped in combinations(doubtful, count):
                found = self.guilty(missing, frozenset(swapped))
                answers |= set() if found is None else set(self._by_table(missing.entry, found))
        return answers

    def _if_disks_took_it(self, sim: Simulation, missing: Missing, found: Candidate) -> set[Answer]:
        """Return what would be allowed if disk losses had taken the record from replicas that did not have it.

        Nothing shows that they did not, if the disks held another record at the offset, or nobody measured what they
        held. A later election may then be the guilty one, if nobody saw that an earlier leader lacked the record.
        """
        entry, number = missing.entry, missing.partition
        is_shown = self._is_measured and self._is_shown_lacking(sim, number, entry, found.election)
        answers: set[Answer] = set()
        for lead in self._leads_of(missing):
            is_later = lead.election.order > found.election.order and not is_shown
            is_possible = is_later or lead.election.order == found.election.order
            if is_possible and lead.led and entry.number not in lead.has:
                until = lead.election.at + sim.setup.measured + _SLACK
                lost = {
                    one.node: one.at
                    for one in sim.faults.disk_losses
                    # Without the times of each node, the record has only those of the step.
                    if entry.wrote_at <= one.at + sim.setup.measured + _SLACK
                    and (one.fired if "node-times" in self._lacks else one.at) <= until
                    if not self._is_measured or one.ends.get(number, 0) > entry.offset
                }
                fates = dict(lead.fates.get(entry.number, found.fates))
                # Of a loss soon after the election, nobody may know that it was no earlier.
                unsure = {node for node, at in lost.items() if at > lead.election.at} - {lead.election.after.leader}
                fates |= {node: "D" for node in lost if node in fates and (fates[node] != "H" or node in unsure)}
                answers |= set(self._by_table(entry, Candidate(lead.election, fates)))
                # It then joined without the record, by a request from before.
                joined = {node for node, at in self._stale_joins[number] if lost.get(node, until) <= at <= until}
                fates |= {node: "S" for node in joined if fates.get(node) == "D"}
                answers |= set(self._by_table(entry, Candidate(lead.election, fates)))
        return answers

    def _if_earlier_winners_lacked_it(self, sim: Simulation, missing: Missing, found: Candidate) -> set[Answer]:
        """Return what would be allowed if earlier winners had lacked it, which nothing shows.

        A winner from outside the ISR need not have had it. Another one may have lost it, if nobody measured its disk.
        """
        entry, answers = missing.entry, set[Answer]()
        for lead in self._leads_of(missing):
            election, winner = lead.election, lead.election.after.leader
            if not (entry.reign < election.order < found.election.order and lead.led):
                continue
            had = dict.fromkeys(election.before.replicas, "H")
            if election.road != "clean":
                answers |= set(self._by_table(entry, Candidate(election, {**had, winner: "N"})))
            elif not self._is_measured and self._lost_disk(sim, winner, entry.wrote_at, election.at):
                answers |= set(self._by_table(entry, Candidate(election, {**had, winner: "D"})))
        return answers

    @staticmethod
    def _lost_disk(sim: Simulation, broker: int, since: int, until: int) -> bool:
        return any(one.node == broker and since <= one.at <= until for one in sim.faults.disk_losses)

    def _is_shown_lacking(self, sim: Simulation, number: int, entry: Entry, election: ElectionMade) -> bool:
        """Return whether a row of an election's epoch at or below the record's offset was seen.

        An ack does not say the epoch. It shows only where no other leader, nor one that a gap hides, can have given it.
        """
        epoch = election.after.leader_epoch
        polled = (
            row["offset"]
            for row in sim.clients.polls
            if (row["partition"], row["leader_epoch"]) == (number, epoch) and "polls-epochs" not in self._lacks
        )
        acked = (
            send.offset
            for send in sim.clients.sends
            if send.partition == number and send.entry is not None and send.entry.epoch == epoch
            if send.offset is not None and not self._lacks & {"metadata-gap", "metadata-tail", "sends-offsets"}
            if not self.may_have_another_writer(sim, number, send)
        )
        return any(offset <= entry.offset for offset in (*polled, *acked))

    def mark_doubtful(self, sim: Simulation) -> None:
        """Mark the elections of which nothing shows whether their winners led."""
        seen = {
            (row["partition"], row["leader_epoch"]) for rows in (sim.clients.polls, sim.clients.samples) for row in rows
        }
        self._add_perhaps_led(sim)
        for number, leads in self.leads.items():
            stored = {entry.epoch for broker in sim.brokers.values() for entry in _log(broker, number)}
            self.leads[number] = [
                replace(
                    lead,
                    is_doubtful=lead.is_doubtful
                    or (
                        (number, lead.election.after.leader_epoch) not in seen
                        and lead.election.after.leader_epoch not in stored
                        and sim.had_trouble(lead.election.after.leader, lead.election.at)
                    ),
                )
                for lead in leads
            ]

    def _add_perhaps_led(self, sim: Simulation) -> None:
        """Add the elections that nobody led, and whose winners died so close to them that clocks do not tell."""
        led = {lead.election.order for leads in self.leads.values() for lead in leads}
        is_death_unknown = bool(self._lacks & {"steps", "node-times", "brokers"})
        for order, lead in self._elected.items():
            at, broker = lead.election.at, lead.election.after.leader
            if order not in led and (is_death_unknown or sim.had_trouble(broker, at, before=_SLACK + _SLACK // 2)):
                unled = replace(lead, led=False, is_doubtful=True)
                self.leads.setdefault(lead.election.partition, []).append(unled)
        for leads in self.leads.values():
            leads.sort(key=lambda lead: lead.election.order)

    def _by_table(self, entry: Entry, found: Candidate) -> list[Answer]:
        """Return what the table of causes allows, in each of its rows that fits."""
        election, fates = found.election, found.fates
        winner, at = election.after.leader, election.metadata_offset
        why = fates.get(winner, "N")
        by_name = self._own_elections(election)
        own = next((one for one in by_name if one.is_allowed), None)
        answers: list[Answer] = []
        if own is not None:
            is_promised = own.road == "last-known" and self._is_within_tolerance(entry, found)
            names = ["unexplained"] if is_promised else self._names(own.road)
            answers += [(name, own.metadata_offset) for name in names]
        if election.road != "clean":
            return [*answers, *self._by_name(entry, found, why)]
        sole = election.before.isr == {winner}
        every = all(fates.get(one) in _ON_DISKS for one in election.before.replicas)
        if why in _ON_DISKS and every:
            answers.append(("beyond-tolerance", at))
        # Of a disk loss that close to the join, nothing shows which came first.
        lost_it = why == "D" or (why == "S" and (winner, entry.number) in self._lost_as_it_joined)
        if lost_it and sole and not election.elr_when_registered:
            answers.append(("last-replica-standing", at))
        if why == "S":
            answers.append(("stale-isr-join", at))
        # An election that was not allowed put it into the ISR, and is no less to blame.
        forbidden = [one.metadata_offset for one in by_name if not one.is_allowed]
        if answers and forbidden:
            answers += [("unexplained", one) for one in (at, *forbidden)]
        return answers

    def _by_name(self, entry: Entry, found: Candidate, why: str) -> list[Answer]:
        """Return what an election from outside ISR and ELR allows.

        KIP-966's tolerance limits an election of the last known leader, which nobody asked for. A log that recovery
        after a kill had cut is no excuse; but a replica outside of the ISR may as well never have had the record.
        """
        election = found.election
        at = election.metadata_offset
        answers: list[Answer] = []
        if election.is_allowed and not (election.road == "last-known" and self._is_within_tolerance(entry, found)):
            answers += [(name, at) for name in self._names(election.road)]
        if why == "K":
            answers = [(cause, None) for cause, _ in answers]
        if why == "D" and all(found.fates.get(one) == "D" for one in election.before.replicas):
            answers.append(("beyond-tolerance", at))
        return answers

    def _names(self, road: str) -> list[str]:
        """Return what an election by this road is called.

        A recovery allows unclean elections by the config. Without steps, that is all that the record has of it.
        """
        also = ["unclean-election"] if road == "recovery" and "steps" in self._lacks else []
        return [_NAMES[road], *also]

    def _is_within_tolerance(self, entry: Entry, found: Candidate) -> bool:
        """Return whether KIP-966 promises the record: fewer disks than min ISR lost it, of those that held it."""
        if entry.committed_at is None:
            return False
        lost = sum(1 for fate in found.fates.values() if fate in _ON_DISKS)
        return lost <= entry.min_isr - 1

    def _own_elections(self, election: ElectionMade) -> list[ElectionMade]:
        """Return the elections from outside by which the winner is in the ISR, the last first, if nobody led since."""
        led = {one.election.order for one in self.leads.get(election.partition, ()) if one.led}
        found: list[ElectionMade] = []
        for one in reversed(self.all_elections):
            if one.partition != election.partition or one.order >= election.order:
                continue
            if one.after.leader != election.after.leader or one.order in led:
                break
            if one.road != "clean":
                found.append(one)
        return found

    all_elections: list[ElectionMade]


_SLACK = 300 * MS
_ON_DISKS = ("D", "S", "V")
"""The fates of records that a disk took, whatever came then."""
_NAMES = {"unclean": "unclean-election", "last-known": "last-known-leader", "recovery": "unclean-recovery"}


def _log(broker: Broker, number: int) -> list[Entry]:
    replica = broker.replicas.get(number)
    return [] if replica is None else replica.log
