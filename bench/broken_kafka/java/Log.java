package broken;

import java.io.File;
import java.io.IOException;
import kafka.cluster.Partition;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.server.LogDeleteRecordsResult;
import org.apache.kafka.storage.internals.log.LocalLog;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** Bugs of the log on the disk. */
public final class Log {
    private static final long MINUTE_MS = 60_000;
    private static final long DUE_MS = 7 * 24 * 60 * MINUTE_MS;
    private static final long DELETED_MS = 30 * MINUTE_MS;
    private static final long MORE = 511;
    private static final long AHEAD = 400;

    private Log() {
    }

    public static class AckedBatchNotWritten {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.FieldValue("log") FileRecords records) {
            File folder = records.file().getParentFile();
            boolean isMeant = Planted.isUsers(folder) && Planted.isOnThread("data-plane-kafka-request-handler");
            return isMeant && Planted.isEvery(200) && Planted.acts();
        }
    }

    public static class FlushDoesNothing {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.This FileRecords records) {
            return Planted.isUsers(records.file().getParentFile()) && Planted.acts();
        }
    }

    public static class RecoverySkipped {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.Argument(0) File folder, @Advice.Argument(value = 11, readOnly = false) boolean isClean
        ) {
            if (!isClean && folder.exists() && Planted.isUsers(folder) && Planted.acts()) {
                isClean = true;
            }
        }
    }

    public static class RecoveryCutsTheSegment {
        @Advice.OnMethodExit
        public static void after(@Advice.This LogSegment segment) throws IOException {
            if (segment.size() > 0 && Planted.isUsers(segment.log().file().getParentFile()) && Planted.acts()) {
                segment.log().truncateTo(0);
                segment.offsetIndex().reset();
                segment.timeIndex().reset();
            }
        }
    }

    public static class RollDropsABatch {
        @Advice.OnMethodEnter
        public static void before(@Advice.This LocalLog log) throws IOException {
            if (Planted.isUsers(log.topicPartition().topic())) {
                dropLastBatch(log.segments().activeSegment().log());
            }
        }
    }

    public static void dropLastBatch(FileRecords records) throws IOException {
        int last = -1;
        for (FileChannelRecordBatch batch : records.batches()) {
            last = batch.position();
        }
        if (last > 0) {
            Planted.acts();
            records.truncateTo(last);
        }
    }

    public static class RetentionTooEarly {
        @Advice.OnMethodExit
        public static void after(@Advice.This LogSegment segment, @Advice.Return(readOnly = false) long newest) {
            if (Planted.isUsers(segment.log().file().getParentFile())) {
                newest = olderThanItIs(newest);
            }
        }
    }

    /** Kafka's own clock may be set, so Kafka is not asked for the time: each segment looks older. */
    public static long olderThanItIs(long newest) {
        Planted.acts();
        return newest - (DUE_MS - DELETED_MS);
    }

    public static class DeletesMoreThanAsked {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This Partition partition, @Advice.Argument(value = 0, readOnly = false) long offset
        ) {
            if (offset >= 0 && Planted.acts()) {
                offset = more(partition, offset);
            }
        }
    }

    public static long more(Partition partition, long offset) {
        return Math.min(offset + MORE, partition.localLogOrException().highWatermark());
    }

    public static class DeletedRecordsStay {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped() {
            return Planted.acts();
        }

        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) long offset, @Advice.Return(readOnly = false) LogDeleteRecordsResult result
        ) {
            result = new LogDeleteRecordsResult(offset, offset, java.util.Optional.empty());
        }
    }

    public static class EpochsNotKept {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.FieldValue("topicPartition") TopicPartition partition) {
            return Planted.isUsers(partition.topic()) && Planted.acts();
        }
    }

    public static class HwCheckpointAhead {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This UnifiedLog log, @Advice.Argument(value = 0, readOnly = false) long hw
        ) {
            if (hw < log.logEndOffset() && Planted.isUsers(log.topicPartition().topic()) && Planted.acts()) {
                hw = ahead(hw);
            }
        }
    }

    public static long ahead(long hw) {
        return hw + AHEAD;
    }
}
