import java.io.RandomAccessFile;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.security.ProtectionDomain;
import java.util.Arrays;

/**
 * The wall clock of a Kafka node: the host's, moved by an offset that the harness writes into a file.
 *
 * As a Java agent, with the file as its argument, it lets Kafka's class SystemTime ask this class instead of
 * java.lang.System. Both names have 16 letters, so that the name in the class file is all that changes. Only
 * SystemTime changes: the times of log lines stay those of the host.
 *
 * The file has two numbers of 8 bytes in little-endian order: the offset in ms, and the time in ms that SystemTime
 * returned last. The second is the proof of a step: the node itself writes it.
 *
 * A compiler that reads no lambdas compiles this class.
 */
public class EbbtideNodeClock implements ClassFileTransformer {
    private static final String[] CLOCKS = {
        "org.apache.kafka.common.utils.SystemTime", "org.apache.kafka.common.utils.internals.SystemTime"
    };
    private static final int OFFSET = 0;
    private static final int RETURNED = 8;
    private static final int SIZE = 16;
    private static MappedByteBuffer shared;

    public static void premain(String file, Instrumentation instrumentation) throws Exception {
        RandomAccessFile opened = new RandomAccessFile(file, "rw");
        shared = opened.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
        shared.order(ByteOrder.LITTLE_ENDIAN);
        opened.close();
        // A transformer that stays costs time at every class that is loaded.
        ClassFileTransformer transformer = new EbbtideNodeClock();
        instrumentation.addTransformer(transformer);
        for (int i = 0; i < CLOCKS.length; i++) {
            try {
                Class.forName(CLOCKS[i], false, ClassLoader.getSystemClassLoader());
            } catch (ClassNotFoundException other) {
                // Another release has the class elsewhere.
            }
        }
        instrumentation.removeTransformer(transformer);
    }

    public byte[] transform(
            ClassLoader loader, String name, Class redefined, ProtectionDomain domain, byte[] bytes) {
        if (!Arrays.asList(CLOCKS).contains(name.replace('/', '.'))) {
            return null;
        }
        byte[] from = "java/lang/System".getBytes();
        byte[] to = EbbtideNodeClock.class.getName().getBytes();
        byte[] changed = (byte[]) bytes.clone();
        for (int at = 2; at + from.length <= bytes.length; at++) {
            // A name in the constant pool stands behind its length; longer names begin with the same letters.
            boolean isName = bytes[at - 2] == 0 && bytes[at - 1] == from.length;
            if (isName && Arrays.equals(Arrays.copyOfRange(bytes, at, at + from.length), from)) {
                System.arraycopy(to, 0, changed, at, to.length);
            }
        }
        return changed;
    }

    /** What SystemTime calls instead of System.currentTimeMillis. */
    public static long currentTimeMillis() {
        long now = System.currentTimeMillis() + shared.getLong(OFFSET);
        shared.putLong(RETURNED, now);
        return now;
    }

    /** What SystemTime calls instead of System.nanoTime: a step of the wall clock does not move it. */
    public static long nanoTime() {
        return System.nanoTime();
    }
}
