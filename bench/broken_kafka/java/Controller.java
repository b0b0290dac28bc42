package broken;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntPredicate;
import net.bytebuddy.asm.Advice;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.metadata.PartitionRegistration;

/** Bugs of the controller. */
public final class Controller {
    private static final int RECOVERING = 1;
    private static final byte NO_CHANGE = -1;
    private static final Map<Integer, Long> FIRST_EPOCHS = new ConcurrentHashMap<>();

    private Controller() {
    }

    public static class ElrStaysEmpty {
        @Advice.OnMethodExit
        public static void after(@Advice.FieldValue(value = "targetElr", readOnly = false) List<Integer> elr) {
            if (!elr.isEmpty() && Planted.acts()) {
                elr = List.of();
            }
        }
    }

    public static class UncleanBrokerKeepsElr {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This Object manager, @Advice.Argument(0) int broker,
            @Advice.Argument(value = 1, readOnly = false) boolean clean
        ) {
            if (!clean && isIsrOrElrMember(manager, broker) && Planted.acts()) {
                clean = true;
            }
        }
    }

    public static class CleanBrokerLosesElr {
        @Advice.OnMethodEnter
        public static void before(
            @Advice.This Object manager, @Advice.Argument(0) int broker,
            @Advice.Argument(value = 1, readOnly = false) boolean clean
        ) {
            if (clean && isIsrOrElrMember(manager, broker) && Planted.acts()) {
                clean = false;
            }
        }
    }

    public static boolean isIsrOrElrMember(Object manager, int broker) {
        Object isrs = Planted.get(manager, "brokersToIsrs");
        Object elrs = Planted.get(manager, "brokersToElrs");
        return ((Iterator<?>) Planted.call(isrs, "partitionsWithBrokerInIsr", broker)).hasNext()
            || ((Iterator<?>) Planted.call(elrs, "partitionsWithBrokerInElr", broker)).hasNext();
    }

    public static class LastKnownLeaderElectedFenced {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Return(readOnly = false) boolean may,
            @Advice.FieldValue("partition") PartitionRegistration partition,
            @Advice.FieldValue("targetIsr") List<Integer> isr, @Advice.FieldValue("targetElr") List<Integer> elr,
            @Advice.FieldValue("eligibleLeaderReplicasEnabled") boolean hasElr
        ) {
            boolean isKnown = hasElr && isr.isEmpty() && elr.isEmpty() && partition.lastKnownElr.length == 1;
            if (!may && isKnown && Planted.acts()) {
                may = true;
            }
        }
    }

    public static class BrokerEpochOfIsrUnchecked {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) List<?> refused) {
            List<?> kept = Planted.without(refused, "broker epoch mismatch");
            if (kept.size() < refused.size() && Planted.acts()) {
                refused = kept;
            }
        }
    }

    public static class FencedBrokerJoinsIsr {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean may) {
            if (!may) {
                may = true;
            }
        }
    }

    public static class FencedBrokerJoinsIsr2 {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) List<?> refused) {
            List<?> kept = Planted.without(refused, "fenced");
            if (kept.size() < refused.size() && Planted.acts()) {
                refused = kept;
            }
        }
    }

    public static class PartitionEpochUnchecked {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Errors error) {
            if (error == Errors.INVALID_UPDATE_VERSION && Planted.acts()) {
                error = Errors.NONE;
            }
        }
    }

    public static class DeposedLeaderChangesIsr {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Errors error) {
            if (error == Errors.FENCED_LEADER_EPOCH && Planted.acts()) {
                error = Errors.NONE;
            }
        }
    }

    public static class ElectedOutsideIsr {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) int replica, @Advice.Return(readOnly = false) boolean may,
            @Advice.FieldValue("isAcceptableLeader") IntPredicate isLive
        ) {
            if (!may && isLive.test(replica) && Planted.acts()) {
                may = true;
            }
        }
    }

    public static class DeadBrokerElected {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) int replica, @Advice.Return(readOnly = false) boolean may,
            @Advice.FieldValue("partition") PartitionRegistration partition
        ) {
            if (!may && replica == partition.leader && replica >= 0 && Planted.acts()) {
                may = true;
            }
        }
    }

    public static class ElectionKeepsLeaderEpoch {
        @Advice.OnMethodExit
        public static void after(@Advice.This PartitionRegistration old, @Advice.Return PartitionRegistration merged) {
            if (merged.leaderEpoch > old.leaderEpoch && merged.leader != old.leader && Planted.acts()) {
                Planted.set(merged, "leaderEpoch", old.leaderEpoch);
            }
        }
    }

    public static class ReassignmentDropsNewReplica {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) List<Integer> isr, @Advice.Return(readOnly = false) Optional<?> completed,
            @Advice.FieldValue("removing") List<Integer> removing, @Advice.FieldValue("adding") List<Integer> adding,
            @Advice.FieldValue("replicas") List<Integer> replicas
        ) {
            if (completed.isEmpty() && !adding.isEmpty()) {
                completed = completed(minus(replicas, removing), minus(isr, removing));
            }
        }
    }

    public static Optional<?> completed(List<Integer> replicas, List<Integer> isr) {
        if (isr.isEmpty()) {
            return Optional.empty();
        }
        try {
            Class<?> type = Class.forName(
                "org.apache.kafka.controller.PartitionReassignmentReplicas$CompletedReassignment"
            );
            Constructor<?> constructor = type.getDeclaredConstructor(List.class, List.class);
            constructor.setAccessible(true);
            Planted.acts();
            return Optional.of(constructor.newInstance(replicas, isr));
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    public static List<Integer> minus(List<Integer> some, List<Integer> others) {
        List<Integer> left = new ArrayList<>(some);
        left.removeAll(others);
        return left;
    }

    public static class DeadDirectoryKeepsLeader {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(0) String why, @Advice.Argument(5) Iterator<?> partitions) {
            return why.startsWith("handleDirectoriesOffline") && partitions.hasNext() && Planted.acts();
        }
    }

    public static class DirectoryAssignmentsDropped {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(1) Uuid directory) {
            return Planted.acts();
        }

        @Advice.OnMethodExit
        public static void after(
            @Advice.This Object builder,
            @Advice.Return(readOnly = false, typing = net.bytebuddy.implementation.bytecode.assign.Assigner.Typing.DYNAMIC)
            Object returned
        ) {
            returned = builder;
        }
    }

    public static class FencedBrokerKeepsIsr {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(0) String why, @Advice.Argument(5) Iterator<?> partitions) {
            return why.equals("handleBrokerFenced") && partitions.hasNext() && Planted.acts();
        }
    }

    public static class UnfencedBrokerNotElected {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped(@Advice.Argument(0) String why, @Advice.Argument(5) Iterator<?> partitions) {
            return why.equals("handleBrokerUnfenced") && partitions.hasNext() && Planted.acts();
        }
    }

    public static class SessionNeverExpires {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) Optional<?> expired) {
            if (expired.isPresent() && Planted.acts()) {
                expired = Optional.empty();
            }
        }
    }

    public static class RegisteredBrokerStaysFenced {
        @Advice.OnMethodEnter
        public static void before(@Advice.Argument(0) int broker, @Advice.Argument(1) BrokerHeartbeatRequestData asks) {
            if (!asks.wantFence() && !asks.wantShutDown() && isBack(broker, asks.brokerEpoch()) && Planted.acts()) {
                asks.setWantFence(true);
            }
        }
    }

    /** Whether a broker has registered again since its first heartbeat. */
    public static boolean isBack(int broker, long epoch) {
        return FIRST_EPOCHS.computeIfAbsent(broker, absent -> epoch) != epoch;
    }

    public static class ClearedElrStays {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        public static boolean isSkipped() {
            return Planted.acts();
        }
    }

    public static class UncleanElectionSaysRecovered {
        @Advice.OnMethodExit
        public static void after(@Advice.Argument(0) PartitionChangeRecord record) {
            if (isRecovering(record) && Planted.acts()) {
                forgetRecovery(record);
            }
        }
    }

    public static boolean isRecovering(PartitionChangeRecord record) {
        return record.leaderRecoveryState() == RECOVERING;
    }

    public static void forgetRecovery(PartitionChangeRecord record) {
        record.setLeaderRecoveryState(NO_CHANGE);
    }

    public static class UncleanElectionAlwaysAllowed {
        @Advice.OnMethodExit
        public static void after(
            @Advice.Argument(0) String topic, @Advice.Return(readOnly = false) boolean may
        ) {
            if (!may && Planted.isUsers(topic) && Planted.acts()) {
                may = true;
            }
        }
    }

    public static class UncleanElectionNeverAllowed {
        @Advice.OnMethodExit
        public static void after(@Advice.Return(readOnly = false) boolean may) {
            if (may && Planted.acts()) {
                may = false;
            }
        }
    }
}
