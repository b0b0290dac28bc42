"""The names of the properties that the judge checks, which predictions may name.

`docs/clauses.md` says what each of them means.
"""

from __future__ import annotations

NO_COMMITTED_LOSS = "no-committed-loss-unless-allowed"
NO_HW_REGRESSION = "no-hw-regression-unless-allowed"
HW_FROZEN = "hw-frozen-below-min-isr"
NO_STALE_JOIN = "no-isr-join-with-an-old-broker-epoch"
UNCLEAN_LEAVES = "unclean-broker-leaves-isr-and-elr"
API_AGREES = "api-agrees-with-log"
TRANSITIONS = "every-transition-is-one-the-protocol-allows"
NO_ABORTED_READ = "no-aborted-read"
NO_DUPLICATE = "no-duplicate-of-an-idempotent-producer"
ISR_ELR_DISJOINT = "isr-and-elr-disjoint"
ELR_BELOW_MIN_ISR = "elr-only-below-min-isr"
LEADER_IN_ISR = "leader-in-isr"
RECOVERING_ISR = "recovering-has-an-isr-of-one"
RECOVERING_ELECTION = "recovering-begins-with-an-election"
ELECTION_RECOVERING = "election-outside-isr-and-elr-shows-recovering"
PARTITION_EPOCH = "partition-epoch-rises-by-one"
LEADER_EPOCH = "leader-epoch-rises-by-one"
METADATA_KEPT = "metadata-log-keeps-what-it-committed"
WITNESS_AGREES = "witness-agrees"
COMMITS_KEPT = "no-acked-commit-lost-unless-allowed"
NO_HANGING_TRANSACTION = "no-hanging-transaction"
EXACTLY_ONCE = "exactly-once-copies"

PROPERTY_NAMES = (
    NO_COMMITTED_LOSS,
    NO_HW_REGRESSION,
    NO_ABORTED_READ,
    NO_DUPLICATE,
    HW_FROZEN,
    ISR_ELR_DISJOINT,
    ELR_BELOW_MIN_ISR,
    UNCLEAN_LEAVES,
    LEADER_IN_ISR,
    RECOVERING_ISR,
    RECOVERING_ELECTION,
    ELECTION_RECOVERING,
    NO_STALE_JOIN,
    TRANSITIONS,
    API_AGREES,
    PARTITION_EPOCH,
    LEADER_EPOCH,
    METADATA_KEPT,
)
"""The properties of every verdict."""

SOMETIMES_CHECKED = (WITNESS_AGREES, COMMITS_KEPT, NO_HANGING_TRANSACTION, EXACTLY_ONCE)
"""Only where the run had a witness, where the record has groups' commits, where a producer was transactional, and where
a copier was."""
