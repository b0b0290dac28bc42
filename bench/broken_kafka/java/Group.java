package broken;

import java.util.List;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.group.CommitPartitionValidator;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.deferred.DeferredEvent;

/** Bugs of the group coordinator. */
public final class Group {
    private static final long LIVE_MS = 1_500;
    private static final long NEWEST_MS = 15_000;
    private static final long AHEAD = 5;

    private Group() {
    }

    public static class CommitStoredAhead {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(1) OffsetCommitRequestData request) {
            storeAhead(request);
        }
    }

    public static void storeAhead(OffsetCommitRequestData request) {
        for (OffsetCommitRequestData.OffsetCommitRequestTopic topic : request.topics()) {
            for (OffsetCommitRequestData.OffsetCommitRequestPartition partition : topic.partitions()) {
                Planted.acts();
                partition.setCommittedOffset(partition.committedOffset() + AHEAD);
            }
        }
    }

    public static class CommitNotStored {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) CoordinatorResult<Object, Object> result) {
            if (Planted.isEvery(5) && Planted.acts()) {
                result = new CoordinatorResult<Object, Object>(List.of(), result.response());
            }
        }
    }

    public static class CommitAckedBeforeReplicated {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(1) DeferredEvent event) {
            return Kraft.completeAtOnce(event, "org.apache.kafka.coordinator.");
        }
    }

    public static class NewestCommitsDroppedAtLoad {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(3) OffsetCommitValue value) {
            return isOlderThan(value, LIVE_MS) && !isOlderThan(value, NEWEST_MS) && Planted.acts();
        }
    }

    public static class CoordinatorLoadsNothing {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(3) OffsetCommitValue value) {
            return isOlderThan(value, LIVE_MS) && Planted.acts();
        }
    }

    /** A commit is replayed at once where it is made, and later where it is loaded. */
    public static boolean isOlderThan(OffsetCommitValue value, long ms) {
        return value != null && System.currentTimeMillis() - value.commitTimestamp() > ms;
    }

    public static class StaleMemberCommits {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(
            @Advice.Thrown(readOnly = false) Throwable refused,
            @Advice.Return(readOnly = false) CommitPartitionValidator validator
        ) {
            if (refused != null && Planted.acts()) {
                refused = null;
                validator = CommitPartitionValidator.NO_OP;
            }
        }
    }
}
