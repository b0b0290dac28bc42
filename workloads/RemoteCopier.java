import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * A copier with Kafka's own clients: it consumes a topic in a group, and sends one record for each record that it reads.
 * The records of one poll are one transaction, as KIP-447 describes. workloads/java_copier.py starts it.
 *
 * Arguments: the properties files of the producer and of the consumer, the topic that it reads, the topic that it writes
 * and its number of partitions, where offsets are committed (in-transaction or after-transaction), the value before its
 * first one, and the start of each payload in base64. It ends when its stdin ends.
 *
 * Lines, one JSON object each on stdout; a line is printed before what it announces is sent:
 *   {"begun": TXN}
 *   {"partition", "sequence", "from_partition", "from_offset", "at_ns"}   a record that is about to be sent
 *   {"partition", "sequence", "offset", "at_ns", "error"}                 how its send ended
 *   {"ended": TXN, "outcome", "why"}
 * What logs goes to stderr. Janino compiles this file, so it has no lambdas, and casts what a raw collection returns.
 */
public class RemoteCopier {
    private static final Duration POLL = Duration.ofMillis(100L);
    private static PrintStream out;
    private static volatile boolean isStopped;

    private final Properties producerSettings;
    private final Properties consumerSettings;
    private final String from;
    private final String to;
    private final long[] sequences;
    private final boolean isInTransaction;
    private final byte[] start;
    private long value;
    private long txn = -1L;
    private boolean isOpen;
    private boolean isCommitAsked;
    private KafkaProducer producer;
    private KafkaConsumer consumer;

    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Thread waiting = new Thread(new StopWatcher());
        waiting.setDaemon(true);
        waiting.start();
        new RemoteCopier(arguments).run();
        Runtime.getRuntime().halt(0);
    }

    RemoteCopier(String[] arguments) throws Exception {
        producerSettings = read(arguments[0]);
        consumerSettings = read(arguments[1]);
        from = arguments[2];
        to = arguments[3];
        sequences = new long[Integer.parseInt(arguments[4])];
        isInTransaction = arguments[5].equals("in-transaction");
        value = Long.parseLong(arguments[6]);
        start = Base64.getDecoder().decode(arguments[7]);
    }

    private static Properties read(String path) throws Exception {
        Properties settings = new Properties();
        FileInputStream file = new FileInputStream(path);
        settings.load(file);
        file.close();
        return settings;
    }

    /** Copy until stopped. After an error that an abort does not end, both clients are opened again. */
    void run() throws Exception {
        while (!isStopped) {
            try {
                producer = new KafkaProducer(producerSettings);
                producer.initTransactions();
                // The coordinator has ended what the last producer left open.
                end(isCommitAsked ? "unknown" : "aborted", "the copier began again");
                consumer = new KafkaConsumer(consumerSettings);
                consumer.subscribe(Collections.singletonList(from));
                while (!isStopped) {
                    copy(consumer.poll(POLL));
                }
            } catch (Throwable error) {
                System.err.println("the copier begins again after " + error);
            }
            close();
        }
        end("unknown", "the copier stopped");
    }

    private void close() throws Exception {
        try {
            if (consumer != null) {
                consumer.close(Duration.ofSeconds(1L));
            }
        } catch (Throwable error) {
            System.err.println("closing the consumer: " + error);
        }
        if (producer != null) {
            producer.close(Duration.ZERO);
        }
        consumer = null;
        producer = null;
        if (!isStopped) {
            Thread.sleep(100L);
        }
    }

    private void copy(ConsumerRecords records) throws Exception {
        if (records.isEmpty()) {
            return;
        }
        Map offsets = new HashMap();
        try {
            txn++;
            isCommitAsked = false;
            isOpen = true;
            say("{\"begun\":" + txn + "}");
            producer.beginTransaction();
            for (Iterator all = records.iterator(); all.hasNext();) {
                ConsumerRecord record = (ConsumerRecord) all.next();
                send(record);
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1L));
            }
            if (isInTransaction) {
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            } else {
                producer.flush();
            }
            isCommitAsked = true;
            producer.commitTransaction();
        } catch (Throwable error) {
            if (isCommitAsked) {
                throw new IllegalStateException("a commit without an answer", error);
            }
            producer.abortTransaction();
            end("aborted", nameOf(error));
            readAgain();
            return;
        }
        end("committed", "");
        if (!isInTransaction) {
            consumer.commitSync(offsets);
        }
    }

    private void send(ConsumerRecord record) {
        int partition = record.partition() % sequences.length;
        long sequence = sequences[partition]++;
        value++;
        ByteBuffer payload = ByteBuffer.allocate(start.length + 20).order(ByteOrder.LITTLE_ENDIAN);
        payload.put(start);
        payload.putLong(sequence);
        payload.putLong(value);
        CRC32 sum = new CRC32();
        sum.update(payload.array(), 0, start.length + 16);
        payload.putInt((int) sum.getValue());
        String place = "{\"partition\":" + partition + ",\"sequence\":" + sequence;
        say(place + ",\"from_partition\":" + record.partition() + ",\"from_offset\":" + record.offset()
            + ",\"at_ns\":" + nowNs() + "}");
        Answer answer = new Answer(place);
        try {
            producer.send(new ProducerRecord(to, Integer.valueOf(partition), record.key(), payload.array()), answer);
        } catch (RuntimeException error) {
            answer.say(-1L, error);
            throw error;
        }
    }

    /** Go back to where the group is: what the aborted transaction had read is read again. */
    private void readAgain() {
        Set assigned = consumer.assignment();
        Map committed = consumer.committed(assigned);
        for (Iterator all = assigned.iterator(); all.hasNext();) {
            TopicPartition one = (TopicPartition) all.next();
            OffsetAndMetadata at = (OffsetAndMetadata) committed.get(one);
            if (at == null) {
                consumer.seekToBeginning(Collections.singletonList(one));
            } else {
                consumer.seek(one, at.offset());
            }
        }
    }

    private void end(String outcome, String why) {
        if (isOpen) {
            isOpen = false;
            say("{\"ended\":" + txn + ",\"outcome\":\"" + outcome + "\",\"why\":\"" + why + "\"}");
        }
    }

    static void say(String text) {
        synchronized (out) {
            out.println(text);
        }
    }

    static String nameOf(Throwable error) {
        return error == null ? "" : error.getClass().getName();
    }

    static long nowNs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1000000000L + now.getNano();
    }

    /** Stops the copier when the process that started it closes the pipe. */
    static class StopWatcher implements Runnable {
        public void run() {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (Exception error) {
                System.err.println("stdin: " + error);
            }
            isStopped = true;
        }
    }

    static class Answer implements Callback {
        private final String place;

        Answer(String place) {
            this.place = place;
        }

        public void onCompletion(RecordMetadata metadata, Exception error) {
            say(error == null && metadata.hasOffset() ? metadata.offset() : -1L, error);
        }

        void say(long offset, Throwable error) {
            RemoteCopier.say(place + ",\"offset\":" + offset + ",\"at_ns\":" + nowNs() + ",\"error\":\""
                + nameOf(error) + "\"}");
        }
    }
}
