package broken;

import java.io.File;
import java.util.Optional;
import kafka.cluster.Partition;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** Bugs of a follower. */
public final class Follower {
    private static final long TOO_FAR = 500;

    private Follower() {
    }

    public static class FollowerTruncatesToHw {
        @Advice.OnMethodExit
        public static void after(@Advice.This Partition partition, @Advice.Return boolean isNew) {
            if (isNew && Planted.isUsers(partition.topic())) {
                truncateToHw(partition.log().get());
            }
        }
    }

    public static void truncateToHw(UnifiedLog log) {
        if (log.highWatermark() < log.logEndOffset()) {
            Planted.acts();
            Planted.call(log, "truncateTo", log.highWatermark());
        }
    }

    public static class DivergenceIgnored {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(0) scala.collection.Map<?, ?> diverging) {
            return diverging.iterator().hasNext() && Planted.acts();
        }
    }

    public static class FollowerHwIsItsEnd {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This UnifiedLog log, @Advice.Argument(value = 0, readOnly = false) long hw
        ) {
            if (hw < log.logEndOffset() && Planted.isUsers(log.topicPartition().topic()) && Planted.acts()) {
                hw = log.logEndOffset();
            }
        }
    }

    public static class FollowerHwStandsStill {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.This UnifiedLog log) {
            return Planted.isUsers(log.topicPartition().topic()) && Planted.acts();
        }

        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Optional<Long> hw) {
            if (hw == null) {
                hw = Optional.empty();
            }
        }
    }

    public static class FollowerIgnoresLogStart {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(
            @Advice.This UnifiedLog log, @Advice.Argument(0) long start,
            @Advice.Argument(1) LogStartOffsetIncrementReason why
        ) {
            boolean isNew = why == LogStartOffsetIncrementReason.LeaderOffsetIncremented && start > log.logStartOffset();
            return isNew && Planted.acts();
        }
    }

    public static class FollowerLosesAFetchedBatch {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.FieldValue("log") FileRecords records) {
            File folder = records.file().getParentFile();
            boolean isMeant = Planted.isUsers(folder) && Planted.isOnThread("ReplicaFetcherThread");
            return isMeant && Planted.isEvery(50) && Planted.acts();
        }
    }

    public static class TruncatesTooFar {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This UnifiedLog log, @Advice.Argument(value = 0, readOnly = false) long target
        ) {
            if (target < log.logEndOffset() && Planted.isUsers(log.topicPartition().topic())) {
                target = tooFar(log, target);
            }
        }
    }

    public static long tooFar(UnifiedLog log, long target) {
        Planted.acts();
        return Math.max(log.logStartOffset(), target - TOO_FAR);
    }

    public static class FollowerStartsAnew {
        @Advice.OnMethodExit
        public static void after(@Advice.This Partition partition, @Advice.Return boolean isNew) {
            if (isNew && Planted.isUsers(partition.topic())) {
                startAnew(partition.log().get());
            }
        }
    }

    public static void startAnew(UnifiedLog log) {
        if (log.logStartOffset() < log.logEndOffset()) {
            Planted.acts();
            log.truncateFullyAndStartAt(log.logStartOffset(), Optional.empty());
        }
    }
}
