import java.util.Iterator;
import java.util.List;
import java.util.Map;

import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;

/** Prints each property of a broker that is the default of a topic config, and this config, in Kafka's order. */
public class TopicDefaults {
    public static void main(String[] words) {
        for (Iterator topics = ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.entrySet().iterator(); topics.hasNext();) {
            Map.Entry topic = (Map.Entry) topics.next();
            for (Iterator names = ((List) topic.getValue()).iterator(); names.hasNext();) {
                System.out.println(((ConfigSynonym) names.next()).name() + " " + topic.getKey());
            }
        }
    }
}
