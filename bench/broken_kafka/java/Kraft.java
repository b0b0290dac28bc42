package broken;

import java.util.Map;
import java.util.Optional;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.deferred.DeferredEvent;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Bugs of the metadata quorum, and of the metadata that brokers have. */
public final class Kraft {
    private static final int NO_NEW_LEADER = -2;

    private Kraft() {
    }

    public static class MetadataNotFlushed {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped() {
            return Planted.acts();
        }
    }

    public static class VoteNotKept {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped() {
            return Planted.acts();
        }
    }

    public static class MetadataCommittedByOne {
        @Advice.OnMethodExit
        public static void after(@Advice.This Object leader, @Advice.Return(readOnly = false) boolean grew) {
            if (commitAlone(leader)) {
                grew = true;
            }
        }
    }

    public static boolean commitAlone(Object leader) {
        Object local = Planted.call(Planted.get(leader, "localVoterNode"), "voterKey");
        Object state = ((Map<?, ?>) Planted.get(leader, "voterStates")).get(Planted.call(local, "id"));
        if (state == null) {
            return false;
        }
        Optional<?> end = (Optional<?>) Planted.get(state, "endOffset");
        Optional<?> hw = (Optional<?>) Planted.get(leader, "highWatermark");
        long start = (Long) Planted.get(leader, "epochStartOffset");
        if (end.isEmpty() || offset(end) <= start || (hw.isPresent() && offset(hw) >= offset(end))) {
            return false;
        }
        Planted.acts();
        Planted.set(leader, "highWatermark", end);
        return true;
    }

    private static long offset(Optional<?> of) {
        return ((LogOffsetMetadata) of.get()).offset();
    }

    public static class VoteForAShorterLog {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(value = 4, readOnly = false) boolean isUpToDate) {
            if (!isUpToDate && Planted.acts()) {
                isUpToDate = true;
            }
        }
    }

    public static class BrokerMissesIsrChanges {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(0) PartitionChangeRecord record) {
            return isIsrOnly(record) && Planted.acts();
        }
    }

    public static boolean isIsrOnly(PartitionChangeRecord record) {
        return record.isr() != null && record.leader() == NO_NEW_LEADER && record.replicas() == null;
    }

    public static class ControllerAnswersBeforeCommit {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(1) DeferredEvent event) {
            return completeAtOnce(event, "org.apache.kafka.controller.");
        }
    }

    public static boolean completeAtOnce(DeferredEvent event, String owner) {
        if (!event.getClass().getName().startsWith(owner)) {
            return false;
        }
        Planted.acts();
        event.complete(null);
        return true;
    }

    public static class SnapshotForgetsElr {
        @Advice.OnMethodExit
        public static void after(@Advice.Return ApiMessageAndVersion made) {
            forgetElr((PartitionRecord) made.message());
        }
    }

    public static void forgetElr(PartitionRecord record) {
        if (record.eligibleLeaderReplicas() != null && !record.eligibleLeaderReplicas().isEmpty()) {
            Planted.acts();
            record.setEligibleLeaderReplicas(null);
        }
    }
}
