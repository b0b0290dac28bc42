"""What the stand-in of test_workloads_transactions.py stands for, on kafka-python's own transaction manager."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaError
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import ProducerIdAndEpoch, TransactionManager, TransactionState

from workloads.incarnations import KafkaPythonIncarnation


def _manager(epoch: int = 3) -> TransactionManager:
    manager = TransactionManager("id", 1_000, api_version=(3, 9))
    manager.set_producer_id_and_epoch(ProducerIdAndEpoch(7, epoch))
    manager._current_state = TransactionState.READY
    return manager


def test_kafka_python_reports_a_commit_that_never_was_after_its_epoch_moved() -> None:
    """Why a commit is not believed once the epoch has moved, and not asked for with a record under way."""
    manager = _manager()
    manager.begin_transaction()
    manager._transaction_started = True
    result = manager.begin_commit()
    manager.bump_producer_id_and_epoch()
    bump = manager.next_request_handler(has_incomplete_batches=False)
    bump.handle_response(SimpleNamespace(error_code=0, producer_id=7, producer_epoch=4))
    with pytest.raises(KafkaError, match="Invalid transition"):
        manager.next_request_handler(has_incomplete_batches=False)
    assert result.succeeded
    assert KafkaPythonIncarnation(SimpleNamespace(_transaction_manager=manager)).epoch == (7, 4)


def test_each_writing_of_the_commit_is_counted_on_the_real_transaction_manager() -> None:
    manager = _manager()
    incarnation = KafkaPythonIncarnation(SimpleNamespace(_transaction_manager=manager))
    manager.begin_transaction()
    manager._transaction_started = True
    manager.begin_commit()
    handler = manager.next_request_handler(has_incomplete_batches=False)
    assert incarnation.commits_sent == 1
    handler.reenqueue()
    assert incarnation.commits_sent == 2


def test_an_abort_is_not_counted_as_a_commit() -> None:
    manager = _manager()
    incarnation = KafkaPythonIncarnation(SimpleNamespace(_transaction_manager=manager))
    manager.begin_transaction()
    manager.begin_abort()
    assert incarnation.commits_sent == 0


def test_the_stand_in_has_what_is_used_of_the_real_sender() -> None:
    for name in ("_dispatch_error", "_can_split", "force_close"):
        assert hasattr(Sender, name)
