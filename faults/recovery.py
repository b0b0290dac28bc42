"""KIP-966's unclean recovery, carried out from outside on a leaderless partition.

The step asks every replica for its log over the network, as an operator's tool could, and each
answer is compared with that replica's volume. A rule that the caller passes chooses the leader
(`analysis.spec.unclean_recovery`). The release then elects that replica: the step reassigns the
partition to the same replicas with the chosen replica first, which completes at once on a leaderless
partition, and asks for an unclean election, which takes the first live replica of that order. The
replicas return to their order afterwards.

The step never elects when the partition has a leader, or got one meanwhile from Kafka itself. An
answer counts only as long as its broker keeps the registration that it answered with, so a broker
that dies between its answer and the election is asked again, or another replica is chosen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cluster.kafka_api.admin_requests import AdminAnswer, AdminRequest, Elect, Reassign
from cluster.kafka_api.replica_log import ReplicaAnswers
from cluster.runtime.cluster import Runtime
from ebbtide import run_clock
from ebbtide.errors import HarnessError
from ebbtide.kraft.image import MetadataImage
from ebbtide.kraft.kip_elr import KipElr, kip_elr
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.steps.recovery import RecoverStep
from ebbtide.waiting import WaitExpired, wait_until
from faults.base import Effect, proven_effect, unproven_effect
from faults.injector import Family, Injector, Plan
from faults.replica_replies import (
    AskedReplicas,
    AskReplicas,
    Choice,
    Choose,
    LogReply,
    log_on_volume,
    shown_reply,
)

NOT_NEEDED = "ELECTION_NOT_NEEDED"
"""Kafka's word for a partition that has a leader."""
NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
"""Kafka's word for a partition without a replica that may lead."""

_ACCEPTED = "NONE"


class RecoveryFaults:
    """The recoveries of one run."""

    def __init__(self, injector: Injector, ask_replicas: AskReplicas, choose: Choose) -> None:
        self._injector = injector
        self._ask_replicas = ask_replicas
        self._choose = choose

    @property
    def family(self) -> Family:
        """How the kind is carried out."""
        return Family(plans={RecoverStep: self._plan})

    def _plan(self, step: RecoverStep) -> Plan:
        def act() -> Effect:
            return Recovery(
                step,
                runtime=self._injector.runtime,
                look=self._look,
                ask_replicas=self._ask_replicas,
                choose=self._choose,
            ).carry_out()

        return Plan(nodes=(), description=f"recover {step.partition} uncleanly, {step.strategy}", act=act)

    def _look(self) -> MetadataImage:
        self._injector.poll()
        return self._injector.view.image


class _Ended(Exception):
    """The recovery is over, with this effect."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect.why)
        self.effect = effect


class Recovery:
    """One unclean recovery."""

    def __init__(
        self,
        step: RecoverStep,
        *,
        runtime: Runtime,
        look: Callable[[], MetadataImage],
        ask_replicas: AskReplicas,
        choose: Choose,
    ) -> None:
        """`look` reads the metadata log."""
        self._step = step
        self._at = step.partition.at
        self._runtime = runtime
        self._look = look
        self._ask_replicas = ask_replicas
        self._choose = choose
        self._began = time.monotonic()
        self._began_ns = run_clock.now_ns()
        self._ends = self._began + step.deadline_s
        self._due_since: float | None = None
        self._epochs: dict[int, list[tuple[int, int]]] = {}
        """Of each broker: (when it was first seen here in ns, broker epoch), oldest first."""
        self._kip = KipElr()
        self._kip_offset = -1
        self._replies: dict[int, LogReply] = {}
        self._void: dict[int, str] = {}
        self._silent: dict[int, str] = {}
        self._figures: dict[str, Any] = {
            "request": f"recover {step.partition} uncleanly, {step.strategy}",
            "strategy": step.strategy,
            "timeout_s": step.timeout.seconds,
        }

    def carry_out(self) -> Effect:
        """Recover, and return the proof."""
        state = self._state(self._note(self._look()))
        if state is None:
            return self._unproven(f"there is no partition {self._step.partition}")
        if state.leader >= 0:
            return self._refusal(NOT_NEEDED, f"the partition has a leader, broker {state.leader}")
        question = self._ask_replicas(self._at, state.replicas)
        try:
            while True:
                state, choice = self._await_choice(question)
                if self._step.strategy == "manual":
                    return self._shown(question, state)
                effect = self._elect(question, state, choice)
                if effect is not None:
                    return effect
        except _Ended as ended:
            return ended.effect
        finally:
            question.close()

    def _await_choice(self, question: AskedReplicas) -> tuple[PartitionState, Choice]:
        """Wait until the strategy has chosen, or with Manual until its timeout."""
        choice = Choice()

        def look() -> tuple[PartitionState, Choice] | None:
            nonlocal choice
            image = self._note(self._look())
            state = self._leaderless(image)
            answers = question.answers()
            self._take(answers)
            choice = self._choose(
                self._step.strategy, state, self._kip.last_known_elr, list(self._replies.values()), self._live(image)
            )
            self._void = choice.void
            is_due = answers.asking and self._is_due()
            if is_due and self._due_since is None:
                self._due_since = time.monotonic()
            waited_s = 0.0 if self._due_since is None else time.monotonic() - self._due_since
            everybody = set(state.replicas) <= self._replies.keys() - choice.void.keys()
            over = is_due and (everybody or waited_s >= self._step.timeout.seconds)
            chosen = bool(choice.ranked) or (self._step.strategy == "manual" and waited_s >= self._step.timeout.seconds)
            return (state, choice) if over and chosen else None

        try:
            return wait_until(look, awaited="a choice", timeout_s=max(0.0, self._ends - time.monotonic()))
        except WaitExpired:
            raise _Ended(self._refusal(NOT_AVAILABLE, self._why_nobody(choice))) from None

    def _is_due(self) -> bool:
        """Whether the strategy may begin (KIP-966, Leader election 3 and 4).

        Balanced waits for fenced members of the ELR; a live one would lead already.
        """
        return self._step.strategy != "balanced" or not self._kip.elr

    def _why_nobody(self, choice: Choice) -> str:
        waited = f"within {self._step.deadline_s:g} s"
        if self._due_since is None and not self._is_due():
            return f"Balanced waits for the fenced ELR members {sorted(self._kip.elr)}, which did not return {waited}"
        if choice.awaited:
            return f"no reply of the LastKnownElr members {sorted(choice.awaited)} counted {waited}"
        seen = "; ".join(f"broker {one}: {why}" for one, why in sorted((self._silent | self._void).items()))
        return f"no replica's reply counted {waited}" + (f" ({seen})" if seen else "")

    def _elect(self, question: AskedReplicas, state: PartitionState, choice: Choice) -> Effect | None:
        """Have the best reply's replica elected; None if that reply became void before."""
        chosen = choice.ranked[0]
        order = tuple(dict.fromkeys((*choice.ranked, *state.replicas)))
        self._figures |= {
            "chosen": chosen,
            "replies": self._shown_replies(state),
            "elr": sorted(self._kip.elr),
            "last_known_elr": sorted(self._kip.last_known_elr),
            "decided_after_s": self._elapsed_s(),
        }
        wrong = [broker for broker in choice.ranked if self._figures["replies"][str(broker)]["as_on_volume"] is False]
        if wrong:
            raise _Ended(self._unproven(f"the answers of brokers {wrong} are not what their volumes hold"))
        if order != state.replicas:
            self._request(question, Reassign(topic=self._at.topic, partition=self._at.partition, replicas=order))
            self._await(lambda now: now if now.replicas == order else None, "the new order of the replicas")
        image = self._note(self._look())
        self._leaderless(image)
        if self._live(image).get(chosen) != self._replies[chosen].broker_epoch:
            self._figures.setdefault("void_before_election", []).append(chosen)
            return None
        self._request(question, Elect(topic=self._at.topic, partition=self._at.partition, unclean=True))
        led = self._await(
            lambda now: now if now.leader >= 0 and now.leader_epoch > state.leader_epoch else None,
            "a leader in the metadata log",
            may_lead=True,
        )
        self._figures |= {
            "record": {"metadata_offset": led.metadata_offset, "leader": led.leader, "leader_epoch": led.leader_epoch},
            "led_after_s": self._elapsed_s(),
        }
        if led.leader != chosen:
            return self._unproven(f"broker {chosen} was chosen, and Kafka elected broker {led.leader}")
        try:
            self._await_service(question, led)
        except WaitExpired:
            why = f"broker {chosen} was elected, and does not answer as the leader of epoch {led.leader_epoch}"
            return self._unproven(f"{why}: {self._silent.get(chosen, 'its answer is under an older epoch')}")
        self._figures["answered_as_leader_after_s"] = self._elapsed_s()
        if order != state.replicas:
            self._restore_order(question, state.replicas)
        if self._step.expect_error is not None:
            return self._unproven(f"broker {chosen} was elected instead of the expected {self._step.expect_error}")
        return proven_effect(**self._figures)

    def _shown(self, question: AskedReplicas, state: PartitionState) -> Effect:
        """End a manual recovery: the answers are shown, and nobody is elected."""
        self._take(question.answers())
        self._figures |= {
            "replies": self._shown_replies(state),
            "elr": sorted(self._kip.elr),
            "last_known_elr": sorted(self._kip.last_known_elr),
        }
        if self._step.expect_error is not None:
            return self._unproven(f"nothing was refused, and {self._step.expect_error} was expected")
        if not self._replies:
            return self._unproven(f"no replica answered within {self._step.timeout}")
        return proven_effect(**self._figures)

    def _await_service(self, question: AskedReplicas, led: PartitionState) -> None:
        """Wait for the leader's own word that it leads. Raises `WaitExpired`."""

        def answers() -> bool:
            self._look()
            self._take(question.answers())
            reply = self._replies.get(led.leader)
            return reply is not None and reply.log.current_leader_epoch >= led.leader_epoch

        wait_until(answers, awaited="the new leader's answer", timeout_s=max(1.0, self._ends - time.monotonic()))

    def _restore_order(self, question: AskedReplicas, replicas: tuple[int, ...]) -> None:
        """Put the replicas back into their order; the proof says if that fails."""
        try:
            self._request(question, Reassign(topic=self._at.topic, partition=self._at.partition, replicas=replicas))
            self._figures["order_restored"] = True
        except _Ended as ended:
            self._figures["order_restored"] = ended.effect.why

    def _request(self, question: AskedReplicas, request: AdminRequest) -> AdminAnswer:
        """Send a request that Kafka must accept; otherwise the recovery ends."""
        left_s = max(1.0, self._ends - time.monotonic())
        what = "reassignment" if isinstance(request, Reassign) else "election"
        try:
            answer = question.administer(request, left_s)
        except HarnessError as error:
            raise _Ended(self._unproven(f"Kafka did not answer the {what}: {error.render()}")) from None
        if answer.error != _ACCEPTED:
            self._leaderless(self._note(self._look()))
            raise _Ended(self._unproven(f"Kafka refused the {what}: {answer.error} {answer.message}".rstrip()))
        return answer

    def _await(
        self, found: Callable[[PartitionState], PartitionState | None], awaited: str, *, may_lead: bool = False
    ) -> PartitionState:
        """Wait for a state of the partition."""

        def look() -> PartitionState | None:
            image = self._note(self._look())
            state = self._state(image) if may_lead else self._leaderless(image)
            return None if state is None else found(state)

        try:
            return wait_until(look, awaited=awaited, timeout_s=max(1.0, self._ends - time.monotonic()))
        except WaitExpired as expired:
            raise _Ended(self._unproven(f"Kafka accepted, but {expired}")) from None

    def _leaderless(self, image: MetadataImage) -> PartitionState:
        """Return the partition's state; the recovery ends if Kafka has elected a leader itself."""
        state = self._state(image)
        if state is None:
            raise _Ended(self._unproven(f"the partition {self._step.partition} was deleted"))
        if state.leader >= 0:
            self._figures["elected_by_kafka"] = {
                "metadata_offset": state.metadata_offset,
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
            }
            why = f"Kafka elected broker {state.leader} by itself before the recovery had one elected"
            raise _Ended(self._refusal(NOT_NEEDED, why))
        return state

    def _state(self, image: MetadataImage) -> PartitionState | None:
        return image.partitions.get(self._at)

    def _note(self, image: MetadataImage) -> MetadataImage:
        """Remember since when each registration is known, and keep ELR and LastKnownElr up to date."""
        now_ns = run_clock.now_ns()
        for broker, event in image.brokers.items():
            seen = self._epochs.setdefault(broker, [])
            if not seen or seen[-1][1] != event.broker_epoch:
                # What was there before the first look was there when the first question was sent.
                seen.append((now_ns if seen else self._began_ns, event.broker_epoch))
        if image.next_offset != self._kip_offset:
            self._kip, self._kip_offset = kip_elr(image.history(), self._at), image.next_offset
        return image

    def _take(self, answers: ReplicaAnswers) -> None:
        """Note each answer with the registration that was known when the replica was asked.

        A broker that registered again since then answered before, or its answer is void to be safe.
        """
        for broker, log in answers.logs.items():
            known = [epoch for since_ns, epoch in self._epochs.get(broker, ()) if since_ns <= log.asked_ns]
            if known:
                self._replies[broker] = LogReply(log=log, broker_epoch=known[-1])
        self._silent = dict(answers.errors)

    def _live(self, image: MetadataImage) -> dict[int, int]:
        """Return the broker epoch of each broker that is unfenced."""
        return {broker: event.broker_epoch for broker, event in image.brokers.items() if event.event == "unfenced"}

    def _shown_replies(self, state: PartitionState) -> dict[str, object]:
        """Return what each replica answered, beside what its volume holds."""
        shown: dict[str, object] = {}
        for broker in state.replicas:
            error = self._silent.get(broker, "no answer yet")
            volume = log_on_volume(self._runtime, broker, self._at)
            one = shown_reply(self._replies.get(broker), error, volume, self._began_ns)
            void = {"void": self._void[broker]} if broker in self._void else {}
            shown[str(broker)] = one | void
        return shown

    def _elapsed_s(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def _refusal(self, error: str, why: str) -> Effect:
        """Return the effect of a recovery that elects nobody because of `error`."""
        figures = {**self._figures, "answer": error}
        if "replies" not in figures and self._replies:
            state = self._state(self._look())
            figures |= {} if state is None else {"replies": self._shown_replies(state)}
        if self._step.expect_error == error:
            return proven_effect(**figures, message=why)
        expected = "" if self._step.expect_error is None else f" instead of the expected {self._step.expect_error}"
        return unproven_effect(f"{error}{expected}: {why}", **figures)

    def _unproven(self, why: str) -> Effect:
        return unproven_effect(why, **self._figures)
