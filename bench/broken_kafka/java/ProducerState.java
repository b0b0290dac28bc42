package broken;

import java.io.IOException;
import java.util.Optional;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogSegments;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

/** Bugs of what a partition's replicas know of producers. */
public final class ProducerState {
    private ProducerState() {
    }

    public static class DuplicatesAppended {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Optional<?> duplicate) {
            if (duplicate.isPresent() && Planted.acts()) {
                duplicate = Optional.empty();
            }
        }
    }

    public static class DuplicatesAppended2 {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(@Advice.Thrown(readOnly = false) Throwable refused) {
            refused = null;
        }
    }

    public static class SequenceGapAccepted {
        @Advice.OnMethodExit(onThrowable = RuntimeException.class)
        public static void after(@Advice.Thrown(readOnly = false) Throwable refused) {
            if (refused != null && Planted.acts()) {
                refused = null;
            }
        }
    }

    public static class FollowerKeepsNoProducerState {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(4) AppendOrigin origin) {
            return origin == AppendOrigin.REPLICATION && Planted.acts();
        }

        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Optional<?> completed) {
            if (completed == null) {
                completed = Optional.empty();
            }
        }
    }

    public static class ProducerStateNotReloaded {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(
            @Advice.Argument(0) ProducerStateManager producers, @Advice.Argument(1) LogSegments segments,
            @Advice.Argument(3) long end
        ) throws IOException {
            return isForgotten(producers, end);
        }
    }

    public static boolean isForgotten(ProducerStateManager producers, long end) {
        String topic = ((org.apache.kafka.common.TopicPartition) Planted.get(producers, "topicPartition")).topic();
        if (end == 0 || !producers.isEmpty() || !Planted.isUsers(topic)) {
            return false;
        }
        Planted.acts();
        producers.updateMapEndOffset(end);
        return true;
    }
}
