"""The rules in force at one proxy."""

from __future__ import annotations

from cluster.wire.messages import Direction, Rule


class ArmedRules:
    """The rules in the order in which they were armed; the first that matches applies."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._left: dict[int, int] = {}

    def arm(self, rule: Rule) -> None:
        """Put a rule in force."""
        self._rules[rule.number] = rule
        if rule.times is not None:
            self._left[rule.number] = rule.times

    def end(self, number: int) -> None:
        """End a rule; does nothing when no rule has this number."""
        self._rules.pop(number, None)
        self._left.pop(number, None)

    def match(self, api: int, direction: Direction, peer: str) -> Rule | None:
        """Return the rule for a frame and count it against `times`; None lets it pass."""
        for rule in self._rules.values():
            if rule.api != api or rule.direction != direction or (rule.peers and peer not in rule.peers):
                continue
            left = self._left.get(rule.number)
            if left is None:
                return rule
            if left > 0:
                self._left[rule.number] = left - 1
                return rule
        return None

    def concerns_answers(self, api: int) -> bool:
        """Whether a rule for the answers to requests of `api` is in force."""
        return any(rule.api == api and rule.direction == "response" for rule in self._rules.values())
