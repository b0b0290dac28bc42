import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Kafka's own transactional producers, by commands: workloads/java_remote.py decides, and this program obeys.
 *
 * Arguments: a properties file and a topic. Commands, one a line on stdin:
 *   CALL INCARNATION open|init|begin|commit|abort|discard
 *   send INCARNATION PARTITION SEQUENCE KEY VALUE      (both in base64; the key may be -)
 * Answers, one JSON object a line on stdout: {"call", "error", "cause", "message"} for each call, and {"partition",
 * "sequence", "offset", "at_ns", "error"} for each record. What logs goes to stderr.
 *
 * Janino compiles this file, so it has no lambdas, and casts what a raw collection returns.
 */
public class RemoteProducer {
    private static PrintStream out;

    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        Properties settings = new Properties();
        FileInputStream file = new FileInputStream(arguments[0]);
        settings.load(file);
        file.close();
        Map incarnations = new HashMap();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            Incarnation one = (Incarnation) incarnations.get(words[1]);
            if (one == null) {
                one = new Incarnation(settings, arguments[1]);
                incarnations.put(words[1], one);
            }
            if (words[2].equals("discard")) {
                incarnations.remove(words[1]);
                new Thread(new Command(one, words)).start();
            } else {
                one.turns.execute(new Command(one, words));
            }
        }
        // The process that commanded has ended.
        Runtime.getRuntime().halt(0);
    }

    static void say(String text) {
        synchronized (out) {
            out.println(text);
        }
    }

    static String nameOf(Throwable error) {
        return error == null ? "" : error.getClass().getName();
    }

    static String quoted(String text) {
        return text == null ? "" : text.replace("\\", "/").replace("\"", "'").replaceAll("[\\x00-\\x1f]+", " ");
    }

    /** One producer. Its commands are carried out in turn, on a thread of its own. */
    static class Incarnation {
        final ExecutorService turns = Executors.newSingleThreadExecutor();
        final Properties settings;
        final String topic;
        volatile KafkaProducer producer;

        Incarnation(Properties settings, String topic) {
            this.settings = settings;
            this.topic = topic;
        }

        void call(String what) throws Exception {
            if (what.equals("open")) {
                producer = new KafkaProducer(settings);
            } else if (what.equals("init")) {
                producer.initTransactions();
            } else if (what.equals("begin")) {
                producer.beginTransaction();
            } else if (what.equals("commit")) {
                producer.commitTransaction();
            } else if (what.equals("abort")) {
                producer.abortTransaction();
            } else if (what.equals("discard")) {
                if (producer != null) {
                    producer.close(Duration.ZERO);
                }
                turns.shutdown();
            } else {
                throw new IllegalArgumentException(what);
            }
        }

        void send(String[] words) {
            Answer answer = new Answer(words[2], words[3]);
            byte[] key = words[4].equals("-") ? null : Base64.getDecoder().decode(words[4]);
            byte[] value = Base64.getDecoder().decode(words[5]);
            try {
                producer.send(new ProducerRecord(topic, Integer.valueOf(words[2]), key, value), answer);
            } catch (Throwable error) {
                answer.say(-1L, error);
            }
        }
    }

    static class Command implements Runnable {
        private final Incarnation incarnation;
        private final String[] words;

        Command(Incarnation incarnation, String[] words) {
            this.incarnation = incarnation;
            this.words = words;
        }

        public void run() {
            if (words[0].equals("send")) {
                incarnation.send(words);
                return;
            }
            Throwable met = null;
            try {
                incarnation.call(words[2]);
            } catch (Throwable error) {
                met = error;
            }
            Throwable cause = met == null ? null : met.getCause();
            String message = met == null ? "" : quoted(met.getMessage()) + (cause == null ? "" : "; " + quoted(cause.getMessage()));
            RemoteProducer.say("{\"call\":" + words[0] + ",\"error\":\"" + nameOf(met) + "\",\"cause\":\""
                + nameOf(cause) + "\",\"message\":\"" + message + "\"}");
        }
    }

    static class Answer implements Callback {
        private final String partition;
        private final String sequence;

        Answer(String partition, String sequence) {
            this.partition = partition;
            this.sequence = sequence;
        }

        public void onCompletion(RecordMetadata metadata, Exception error) {
            say(error == null && metadata.hasOffset() ? metadata.offset() : -1L, error);
        }

        void say(long offset, Throwable error) {
            Instant now = Instant.now();
            long atNs = now.getEpochSecond() * 1000000000L + now.getNano();
            RemoteProducer.say("{\"partition\":" + partition + ",\"sequence\":" + sequence + ",\"offset\":" + offset
                + ",\"at_ns\":" + atNs + ",\"error\":\"" + nameOf(error) + "\"}");
        }
    }
}
