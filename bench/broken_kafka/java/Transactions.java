package broken;

import java.util.List;
import java.util.Optional;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/** Bugs of transactions: of their coordinator, of a partition's leader, and of the group coordinator. */
public final class Transactions {
    private Transactions() {
    }

    public static class CommittedMarkersAbort {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(value = 1, readOnly = false) TransactionResult result) {
            if (result == TransactionResult.COMMIT && Planted.acts()) {
                result = TransactionResult.ABORT;
            }
        }
    }

    public static class AbortedMarkersCommit {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(value = 1, readOnly = false) TransactionResult result) {
            if (result == TransactionResult.ABORT && Planted.acts()) {
                result = TransactionResult.COMMIT;
            }
        }
    }

    public static class MarkerNeverSent {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.Argument(value = 4, readOnly = false) scala.collection.immutable.Set<Object> partitions
        ) {
            partitions = withoutOne(partitions);
        }
    }

    @SuppressWarnings("unchecked")
    public static scala.collection.immutable.Set<Object> withoutOne(scala.collection.immutable.Set<Object> all) {
        scala.collection.Iterator<Object> others = all.iterator();
        if (!others.hasNext() || others.next() == null || !others.hasNext()) {
            return all;
        }
        Planted.acts();
        return (scala.collection.immutable.Set<Object>) Planted.call(all, "tail");
    }

    public static class ReadCommittedReadsAll {
        @Advice.OnMethodExit
        public static void after(
            @Advice.This UnifiedLog log, @Advice.Return(readOnly = false) LogOffsetMetadata stable
        ) {
            if (stable.messageOffset < log.highWatermark() && Planted.isUsers(log.topicPartition().topic())) {
                stable = highWatermark(log);
            }
        }
    }

    public static LogOffsetMetadata highWatermark(UnifiedLog log) {
        Planted.acts();
        return (LogOffsetMetadata) Planted.call(log, "fetchHighWatermarkMetadata");
    }

    public static class AbortedListEmpty {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) FetchDataInfo read) {
            if (read.abortedTransactions.isPresent() && !read.abortedTransactions.get().isEmpty() && Planted.acts()) {
                read = new FetchDataInfo(
                    read.fetchOffsetMetadata, read.records, read.firstEntryIncomplete, Optional.of(List.of())
                );
            }
        }
    }

    public static class VerificationSkipped {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean isMissing) {
            if (isMissing && Planted.acts()) {
                isMissing = false;
            }
        }
    }

    public static class VerificationSkipped2 {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) VerificationGuard guard) {
            guard = VerificationGuard.SENTINEL;
        }
    }

    public static class TransactionLogAcks1 {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.Argument(value = 1, readOnly = false) short acks, @Advice.Argument(3) AppendOrigin origin
        ) {
            if (acks == -1 && origin == AppendOrigin.COORDINATOR && Planted.acts()) {
                acks = 1;
            }
        }
    }

    public static class AbortedOffsetsCommitted {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(value = 1, readOnly = false) TransactionResult result) {
            if (result == TransactionResult.ABORT && Planted.acts()) {
                result = TransactionResult.COMMIT;
            }
        }
    }

    public static class CommittedOffsetsDropped {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(value = 1, readOnly = false) TransactionResult result) {
            if (result == TransactionResult.COMMIT && Planted.acts()) {
                result = TransactionResult.ABORT;
            }
        }
    }

    public static class OldProducerEpochAccepted {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(@Advice.Thrown(readOnly = false) Throwable refused) {
            if (refused != null && Planted.acts()) {
                refused = null;
            }
        }
    }

    public static class OldProducerEpochAccepted2 {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(
            @Advice.Thrown(readOnly = false) Throwable refused,
            @Advice.Return(readOnly = false) VerificationGuard guard
        ) {
            if (refused != null) {
                refused = null;
                guard = VerificationGuard.SENTINEL;
            }
        }
    }

    /** The leader also compares the epochs before it asks the coordinator, but not within an open transaction. */
    public static class OldProducerEpochAccepted3 {
        @Advice.OnMethodExit
        public static void after(
            @Advice.This UnifiedLog log, @Advice.Argument(0) long producer, @Advice.Argument(1) short epoch,
            @Advice.Return(readOnly = false) boolean hasTransaction
        ) {
            if (isOlder(epoch, log.producerStateManager().activeProducers().get(producer))) {
                hasTransaction = true;
            }
        }
    }

    public static class OldProducerEpochAccepted4 {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(
            @Advice.Argument(0) short epoch, @Advice.FieldValue("updatedEntry") ProducerStateEntry known,
            @Advice.Thrown(readOnly = false) Throwable refused
        ) {
            if (refused != null && isOlder(epoch, known)) {
                refused = null;
            }
        }
    }

    public static boolean isOlder(short epoch, ProducerStateEntry known) {
        return known != null && epoch < known.producerEpoch();
    }
}
