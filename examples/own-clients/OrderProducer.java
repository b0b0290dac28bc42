import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends orders to Kafka, one after the other, until SIGTERM. The bug is that of producer.py: acks=1. The argument
 * --fixed waits for all replicas in the ISR.
 */
public class OrderProducer {
    public static void main(String[] words) throws InterruptedException {
        boolean fixed = words.length > 2 && words[2].equals("--fixed");
        AtomicBoolean isEnding = new AtomicBoolean();
        AtomicLong confirmed = new AtomicLong();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[0],
            "client.id", "orders-java",
            "acks", fixed ? "all" : "1",
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isEnding.set(true);
            try {
                main.join();
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (long number = 0; !isEnding.get(); number++) {
                String order = "order " + number + " of customer-4711";
                producer.send(new ProducerRecord<>(words[1], order), (place, error) -> {
                    if (error == null && confirmed.incrementAndGet() % 100 == 0) {
                        System.out.println("confirmed " + confirmed.get());
                    }
                });
                Thread.sleep(2);
            }
        }
        System.out.println("confirmed " + confirmed.get() + " in all");
    }
}
