"""Producers, consumers and the sampler of HWs, with what they note and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from usual_rows import usual_row

from ebbtide.journal.outcomes import EXPIRED_UNSENT, outcome_of_last_answer
from simulator.script import MS, SECOND

if TYPE_CHECKING:
    from simulator.replica import Entry, Replica
    from simulator.simulation import Simulation

CLIENT = 0
FINAL_CONSUMER = 99
_TRIES = 12
_TIMEOUT = 4 * SECOND
_REQUEST_TIMEOUT = 1_200 * MS


class Send:
    """One record that a producer sends."""

    __slots__ = (
        "acks",
        "attempt",
        "done_at",
        "entry",
        "error",
        "number",
        "offset",
        "partition",
        "sent_at",
        "status",
        "value",
    )

    def __init__(self, value: int, number: int, partition: int, acks: int, sent_at: int) -> None:
        self.value = value
        self.number = number
        self.partition = partition
        self.acks = acks
        self.sent_at = sent_at
        self.status = "unknown"
        self.offset: int | None = None
        self.error: str | None = None
        self.done_at: int | None = None
        self.attempt = 0
        """Which request is on its way; a producer ignores answers to earlier ones."""
        self.entry: Entry | None = None
        """The record that was acked."""

    def fails(self, error: str, at: int) -> None:
        """Note the last error as a real client does: a leader that was deposed may have appended the record."""
        self.status = outcome_of_last_answer(error, is_only_attempt=self.attempt <= 1)
        self.error, self.done_at = error, at


Request = tuple[Send, int]
"""A record and the number of the attempt."""


class Clients:
    """All clients of a history."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self.sends: list[Send] = []
        self.polls: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.below: list[Entry | None] = []
        """For each sample, the last record that its HW covers."""
        self.older: set[int] = set()
        """The places of samples whose HW is from before the election of the leader that served it."""
        self.stalled_until = 0
        self._leaders: dict[tuple[str, int], int] = {}
        self._positions: dict[tuple[int, int], tuple[int, int, int | None]] = {}

    def start(self) -> None:
        """Start all clients."""
        sim, setup = self._sim, self._sim.setup
        for number, acks in enumerate(setup.acks, 1):
            sim.later(number * 13 * MS, self._produce, number, acks)
        for number in range(1, setup.consumers + 1):
            sim.later(number * 17 * MS, self._poll, number)
        for partition in range(setup.partitions):
            sim.later((partition + 1) * 11 * MS, self._sample, partition)

    def noted(self, at: int) -> int:
        """Return when a client notes what arrives at `at`: later, while it stalls."""
        return max(at, self.stalled_until)

    def _leader(self, who: str, partition: int) -> Replica | None:
        """Return the leader that a client asks, if it answers; else let the client look for another."""
        sim = self._sim
        node = self._leaders.get((who, partition), -1)
        broker = sim.brokers.get(node)
        if broker is not None and sim.is_awake(node) and sim.reach(CLIENT, node):
            replica = broker.replicas.get(partition)
            if replica is not None and replica.leader is not None:
                return replica
        self._refresh(who, partition)
        return None

    def _refresh(self, who: str, partition: int) -> None:
        """Ask a broker that answers who the leader is."""
        sim = self._sim
        awake = [one for one in sim.brokers.values() if sim.is_awake(one.node) and sim.reach(CLIENT, one.node)]
        known = [one for one in awake if partition in one.image]
        if known:
            one = sim.dice(f"client/{who}").choice(known)
            self._leaders[who, partition] = one.image[partition].leader

    def _produce(self, number: int, acks: int) -> None:
        sim = self._sim
        if sim.now >= sim.setup.sends_end:
            return
        value = len(self.sends) * 10 + number
        send = Send(value, number, len(self.sends) % sim.setup.partitions, acks, sim.now)
        self.sends.append(send)
        self._try(send, _TRIES)
        wait = sim.dice(f"producer/{number}").randint(sim.setup.send_every // 2, sim.setup.send_every * 3 // 2)
        sim.later(wait, self._produce, number, acks)

    def _try(self, send: Send, tries: int) -> None:
        sim = self._sim
        who = f"producer-{send.number}"
        node = self._leaders.get((who, send.partition), -1)
        broker = sim.brokers.get(node)
        if broker is None or not broker.up or not sim.reach(CLIENT, node):
            self._refresh(who, send.partition)
            if tries:
                sim.later(150 * MS, self._try, send, tries - 1)
            elif send.done_at is None:
                send.fails("KafkaTimeoutError" if send.attempt else EXPIRED_UNSENT, self.noted(sim.now))
            return
        send.attempt += 1
        if sim.setup.retries:
            sim.later(_REQUEST_TIMEOUT, self._send_again, send, tries, send.attempt)
        sim.later(sim.dice(who).randint(500, 3_000), self._arrive, send, tries, node, broker.life, send.attempt)

    def _send_again(self, send: Send, tries: int, attempt: int) -> None:
        """Send a record once more that nobody answered; the earlier request may have been carried out."""
        if tries and send.attempt == attempt and send.done_at is None:
            self._refresh(f"producer-{send.number}", send.partition)
            self._try(send, tries - 1)

    def _arrive(self, send: Send, tries: int, node: int, life: int, attempt: int) -> None:
        sim = self._sim
        broker = sim.brokers[node]
        if broker.life != life or not broker.up:
            return
        if broker.paused_until > sim.now:
            broker.on_resume.append((self._arrive, (send, tries, node, life, attempt)))
            return
        replica = broker.replicas.get(send.partition)
        if replica is None or replica.leader is None:
            self._refresh(f"producer-{send.number}", send.partition)
            self._again(send, tries, "NOT_LEADER_OR_FOLLOWER", attempt)
            return
        found = sim.leading.append(replica, send.value, send.acks, (send, attempt))
        if isinstance(found, str):
            self._again(send, tries, found, attempt)
        elif send.acks == 1:
            self.answered((send, attempt), node, found, None)

    def _again(self, send: Send, tries: int, error: str, attempt: int) -> None:
        if send.attempt != attempt:
            return
        if tries:
            self._sim.later(150 * MS, self._try, send, tries - 1)
        else:
            send.fails(error, self.noted(self._sim.now))

    def answered(self, request: Request, node: int, entry: Entry, error: str | None) -> None:
        """Let a broker's answer travel to the producer."""
        sim = self._sim
        is_lost = sim.setup.lost_answers and sim.dice("lost answers").random() < sim.setup.lost_answers
        if sim.reach(CLIENT, node) and not is_lost:
            delay = sim.dice(f"producer-{request[0].number}").randint(500, 4_000)
            sim.later(delay, self._note, *request, entry, error)

    def _note(self, send: Send, attempt: int, entry: Entry, error: str | None) -> None:
        if self._sim.now - send.sent_at > _TIMEOUT or send.attempt != attempt:
            return
        at = self.noted(self._sim.now)
        if error is not None:
            send.fails(error, at)
        else:
            send.status, send.offset, send.entry, send.done_at = "acked", entry.offset, entry, at

    def _poll(self, consumer: int) -> None:
        sim = self._sim
        for partition in range(sim.setup.partitions):
            replica = self._leader(f"consumer-{consumer}", partition)
            if replica is not None:
                self._read(consumer, partition, replica)
        wait = sim.dice(f"consumer/{consumer}").randint(60, 250) * MS
        sim.later(wait, self._poll, consumer)

    def _read(self, consumer: int, partition: int, replica: Replica) -> None:
        sim = self._sim
        session, position, before = self._positions.get((consumer, partition), (1, 0, None))
        if position > len(replica.log):
            session, position, before = session + 1, replica.hw, None
        lag = sim.dice(f"consumer/{consumer}").randint(0, sim.setup.slow_consumer) if sim.setup.slow_consumer else 0
        assert replica.leader is not None
        for entry in replica.log[position : min(replica.leader.hw, position + 60)]:
            self.polls.append(self._polled(consumer, partition, session, before, entry, self.noted(sim.now + MS + lag)))
            before = entry.offset
            position = entry.offset + 1
        self._positions[consumer, partition] = (session, position, before)

    def _polled(
        self, consumer: int, partition: int, session: int, before: int | None, entry: Any, at: int
    ) -> dict[str, Any]:
        return usual_row(
            "polls",
            partition=partition,
            offset=entry.offset,
            value=entry.value,
            consumer=consumer,
            session=session,
            prev_offset=before,
            leader_epoch=entry.epoch,
            polled_ns=at,
        )

    def _sample(self, partition: int) -> None:
        sim = self._sim
        replica = self._leader("sampler", partition)
        if replica is not None and replica.leader is not None and replica.leader.hw >= replica.leader.epoch_start:
            hw = min(replica.leader.hw, len(replica.log))
            is_first = all(
                row["leader_epoch"] != replica.epoch for row in self.samples if row["partition"] == partition
            )
            if is_first and replica.hw_when_elected < hw and sim.dice("older hw").random() < 0.2:
                # KIP-207's check and the answer read the HW one after the other.
                hw = replica.hw_when_elected
                self.older.add(len(self.samples))
            self.below.append(replica.log[hw - 1] if hw else None)
            self.samples.append(
                usual_row(
                    "watermarks",
                    partition=partition,
                    broker=replica.broker,
                    leader_epoch=replica.epoch,
                    high_watermark=hw,
                    asked_ns=sim.now - MS,
                    at_ns=self.noted(sim.now + MS),
                )
            )
        sim.later(sim.setup.sample_every, self._sample, partition)

    def read_all(self) -> dict[int, int]:
        """Read each partition to its HW, as the final consumer does; returns the HWs."""
        sim = self._sim
        found = {}
        for partition, state in sim.controller.partitions.items():
            if state.leader < 0:
                continue
            replica = sim.brokers[state.leader].replicas[partition]
            before = None
            for entry in replica.log[: replica.hw]:
                self.polls.append(self._polled(FINAL_CONSUMER, partition, 1, before, entry, sim.now + MS))
                before = entry.offset
            found[partition] = replica.hw
        return found
