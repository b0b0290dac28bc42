import java.util.Iterator;
import java.util.List;

/**
 * Prints the feature levels of a Kafka build, a line each: the feature, its oldest and its newest level for production.
 *
 * The features of Kafka's own tests are no production features. A compiler that reads no lambdas compiles this class.
 */
public class KafkaFeatures {
    private static final String COMMON = "org.apache.kafka.server.common.";

    public static void main(String[] words) throws Exception {
        Class versions = Class.forName(COMMON + "MetadataVersion");
        Object oldest = versions.getField("MINIMUM_VERSION").get(null);
        Object newest = call(versions, "latestProduction", null);
        System.out.println("metadata.version " + call(versions, "featureLevel", oldest)
            + " " + call(versions, "featureLevel", newest));
        Class features = Class.forName(COMMON + "Feature");
        List ofProduction = (List) features.getField("PRODUCTION_FEATURES").get(null);
        for (Iterator all = ofProduction.iterator(); all.hasNext();) {
            Object feature = all.next();
            System.out.println(call(features, "featureName", feature) + " " + call(features, "minimumProduction", feature)
                + " " + call(features, "latestProduction", feature));
        }
        System.out.flush();
        // A class of Kafka's may have started a thread.
        Runtime.getRuntime().halt(0);
    }

    private static Object call(Class declaring, String method, Object on) throws Exception {
        return declaring.getMethod(method, new Class[0]).invoke(on, new Object[0]);
    }
}
