import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the settings that a Kafka release defines, a line each: where it is set, its name and its type.
 *
 * A line of a topic's setting also has the properties of a node that are its default, in the order in which Kafka
 * reads them. A compiler that reads no lambdas compiles this class. It starts nothing, and reads no properties.
 */
public class KafkaSettings {
    /** For each place, the definitions of it and where releases have them: a class and its static method. */
    private static final String[][] DEFINITIONS = {
        {"node", "kafka.server.KafkaConfig configDef", "kafka.server.KafkaConfig$ configDef",
            "org.apache.kafka.server.config.AbstractKafkaConfig configDef"},
        {"node", "org.apache.kafka.server.config.QuotaConfig brokerQuotaConfigs",
            "org.apache.kafka.server.config.QuotaConfigs brokerQuotaConfigs",
            "kafka.server.DynamicConfig$Broker$ brokerConfigDef"},
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig configDefCopy", "kafka.log.LogConfig$ configDefCopy"},
        {"producer", "org.apache.kafka.clients.producer.ProducerConfig configDef"},
    };
    private static final String[] DEFAULTS = {
        "org.apache.kafka.server.config.ServerTopicConfigSynonyms ALL_TOPIC_CONFIG_SYNONYMS",
        "org.apache.kafka.server.config.ServerTopicConfigSynonyms TOPIC_CONFIG_SYNONYMS",
    };

    public static void main(String[] words) throws Exception {
        Map defaults = defaults();
        for (int row = 0; row < DEFINITIONS.length; row++) {
            ConfigDef definition = definition(DEFINITIONS[row]);
            for (Iterator keys = new TreeMap(definition.configKeys()).values().iterator(); keys.hasNext();) {
                ConfigDef.ConfigKey key = (ConfigDef.ConfigKey) keys.next();
                String place = DEFINITIONS[row][0];
                Object ofTopic = place.equals("topic") ? defaults.get(key.name) : null;
                System.out.println(place + " " + key.name + " " + key.type.name().toLowerCase() + namesOf(ofTopic));
            }
        }
        System.out.flush();
        // A class of Kafka's may have started a thread.
        Runtime.getRuntime().halt(0);
    }

    private static ConfigDef definition(String[] placeAndMethods) throws Exception {
        for (int at = 1; at < placeAndMethods.length; at++) {
            String[] words = placeAndMethods[at].split(" ");
            try {
                Class found = Class.forName(words[0]);
                Object instance = words[0].endsWith("$") ? found.getField("MODULE$").get(null) : null;
                return (ConfigDef) found.getMethod(words[1], new Class[0]).invoke(instance, new Object[0]);
            } catch (ClassNotFoundException elsewhere) {
            } catch (NoSuchMethodException elsewhere) {
            }
        }
        throw new IllegalStateException("no " + Arrays.asList(placeAndMethods) + " in this release");
    }

    private static Map defaults() throws Exception {
        for (int at = 0; at < DEFAULTS.length; at++) {
            String[] words = DEFAULTS[at].split(" ");
            try {
                return (Map) Class.forName(words[0]).getField(words[1]).get(null);
            } catch (ClassNotFoundException elsewhere) {
            } catch (NoSuchFieldException elsewhere) {
            }
        }
        return new TreeMap();
    }

    /** The names of a topic setting's synonyms, each after a blank. */
    private static String namesOf(Object synonyms) throws Exception {
        if (synonyms == null) {
            return "";
        }
        StringBuilder names = new StringBuilder();
        for (Iterator all = ((List) synonyms).iterator(); all.hasNext();) {
            Object synonym = all.next();
            names.append(" ").append(synonym.getClass().getMethod("name", new Class[0]).invoke(synonym, new Object[0]));
        }
        return names.toString();
    }
}
