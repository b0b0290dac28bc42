package broken;

import java.io.IOException;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import kafka.cluster.Partition;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.partition.CommittedPartitionState;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import scala.Option;

/** Bugs of a partition's leader. */
public final class Leader {
    private static final int SET_BACK = 400;

    private Leader() {
    }

    public static class HwIsLeadersEnd {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) UnifiedLog log, @Advice.Return(readOnly = false) boolean grew
        ) throws IOException {
            if (Planted.isUsers(log.topicPartition().topic()) && log.highWatermark() < log.logEndOffset()) {
                Planted.acts();
                log.maybeIncrementHighWatermark(log.logEndOffsetMetadata());
                grew = true;
            }
        }
    }

    public static class HwBelowMinIsr {
        @Advice.OnMethodExit
        public static void after(@Advice.This Partition partition, @Advice.Return(readOnly = false) boolean isUnder) {
            if (isUnder && Planted.isUsers(partition.topic()) && Planted.acts()) {
                isUnder = false;
            }
        }
    }

    public static class AcksAllAppendedBelowMinIsr {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This Partition partition, @Advice.Argument(value = 2, readOnly = false) int acks
        ) {
            if (acks == -1 && partition.isUnderMinIsr() && Planted.acts()) {
                acks = 1;
            }
        }
    }

    public static class AcksAllAckedAtOnce {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(1) scala.collection.Map<TopicIdPartition, ?> records,
            @Advice.Return(readOnly = false) boolean isDelayed
        ) {
            if (isDelayed && Planted.isUsers(topicOf(records)) && Planted.acts()) {
                isDelayed = false;
            }
        }
    }

    public static String topicOf(scala.collection.Map<TopicIdPartition, ?> records) {
        return records.keysIterator().next().topic();
    }

    public static class AcksAllAckedBelowMinIsr {
        @Advice.OnMethodExit
        public static void after(@Advice.This Partition partition, @Advice.Return(readOnly = false) int min) {
            boolean isUnder = partition.partitionState().isr().size() < min;
            if (isUnder && Planted.isUsers(partition.topic()) && Planted.acts()) {
                min = 1;
            }
        }
    }

    public static class IsrNeverShrinks {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean needs) {
            if (needs && Planted.acts()) {
                needs = false;
            }
        }
    }

    public static class IsrNeverGrows {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean needs) {
            if (needs && Planted.acts()) {
                needs = false;
            }
        }
    }

    public static class FollowerJoinsIsrBehindHw {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean isInSync) {
            if (!isInSync && Planted.acts()) {
                isInSync = true;
            }
        }
    }

    public static class PendingShrinkCountsAtOnce {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Return(readOnly = false) Set<Integer> isr,
            @Advice.FieldValue("outOfSyncReplicaIds") Set<Integer> leaving
        ) {
            Planted.acts();
            isr = minus(isr, leaving);
        }
    }

    public static Set<Integer> minus(Set<Integer> some, Set<Integer> others) {
        Set<Integer> left = new HashSet<>(some);
        left.removeAll(others);
        return left;
    }

    public static class PendingGrowthNotCounted {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Return(readOnly = false) Set<Integer> isr,
            @Advice.FieldValue("lastCommittedState") CommittedPartitionState committed
        ) {
            Planted.acts();
            isr = committed.isr();
        }
    }

    public static class OffsetsServedBelowEpochStart {
        @Advice.OnMethodEnter
        public static Option<Object> before(@Advice.This Partition partition) {
            return forgetEpochStart(partition);
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        public static void after(@Advice.This Partition partition, @Advice.Enter Option<Object> start) {
            if (start != null) {
                partition.leaderEpochStartOffsetOpt_$eq(start);
            }
        }
    }

    public static Option<Object> forgetEpochStart(Partition partition) {
        Option<Object> start = partition.leaderEpochStartOffsetOpt();
        if (start.isEmpty() || partition.log().isEmpty()) {
            return null;
        }
        if ((Long) start.get() <= partition.log().get().highWatermark()) {
            return null;
        }
        Planted.acts();
        partition.leaderEpochStartOffsetOpt_$eq(Option.empty());
        return start;
    }

    public static class NewLeaderForgetsHw {
        @Advice.OnMethodExit
        public static void after(@Advice.This Partition partition, @Advice.Return boolean isNew) throws IOException {
            if (isNew && Planted.isUsers(partition.topic())) {
                setBack(partition.log().get());
            }
        }
    }

    public static void setBack(UnifiedLog log) throws IOException {
        long earlier = Math.max(log.logStartOffset(), log.highWatermark() - SET_BACK);
        if (earlier < log.highWatermark()) {
            Planted.acts();
            log.updateHighWatermark(earlier);
        }
    }

    public static class ReadsAboveHw {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This UnifiedLog log, @Advice.Argument(value = 2, readOnly = false) FetchIsolation isolation
        ) {
            boolean isBelow = log.highWatermark() < log.logEndOffset() && Planted.isUsers(log.topicPartition().topic());
            if (isolation == FetchIsolation.HIGH_WATERMARK && isBelow && Planted.acts()) {
                isolation = FetchIsolation.LOG_END;
            }
        }
    }

    public static class BatchesOfAnOlderEpoch {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This UnifiedLog log, @Advice.Argument(value = 1, readOnly = false) int epoch
        ) {
            if (epoch > 0 && Planted.isUsers(log.topicPartition().topic()) && Planted.acts()) {
                epoch = epoch - 1;
            }
        }
    }

    public static class LeaderEpochUnchecked {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Errors error) {
            if (error != Errors.NONE && Planted.acts()) {
                error = Errors.NONE;
            }
        }
    }

    public static class DivergenceNotReported {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.Argument(0) UnifiedLog log, @Advice.Argument(value = 1, readOnly = false) Optional<Integer> last,
            @Advice.Argument(2) long offset
        ) {
            if (diverges(log, last, offset) && Planted.acts()) {
                last = Optional.empty();
            }
        }
    }

    public static boolean diverges(UnifiedLog log, Optional<Integer> last, long offset) {
        if (last.isEmpty() || !Planted.isUsers(log.topicPartition().topic())) {
            return false;
        }
        Optional<OffsetAndEpoch> end = log.endOffsetForEpoch(last.get());
        return end.isEmpty() || end.get().epoch() < last.get() || end.get().offset() < offset;
    }

    public static class AnyFetchCountsAsCaughtUp {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This Partition partition, @Advice.Argument(value = 1, readOnly = false) LogOffsetMetadata fetched
        ) {
            LogOffsetMetadata end = partition.localLogOrException().logEndOffsetMetadata();
            boolean isBehind = fetched.messageOffset < end.messageOffset;
            if (isBehind && Planted.isUsers(partition.topic()) && Planted.acts()) {
                fetched = end;
            }
        }
    }
}
