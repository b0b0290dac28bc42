package broken;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.matcher.ElementMatchers;
import net.bytebuddy.utility.JavaModule;

/**
 * Plants one bug in a node of Kafka. The argument is `NAME:CLASS:HOOK:HOOK...`; of the control, only `nothing`.
 *
 * CLASS is a class of this package, and has the advice for the first hook; CLASS2 has that for the second, if there is
 * such a class. Processes other than nodes (formatting, clients) stay as they are.
 */
public final class Agent {
    private Agent() {
    }

    public static void premain(String argument, Instrumentation instrumentation) {
        if (!System.getProperty("sun.java.command", "").startsWith("kafka.Kafka ")) {
            return;
        }
        String[] words = argument.split(":");
        Planted.named(words[0]);
        for (int at = 2; at < words.length; at++) {
            Hook hook = new Hook(words[at]);
            TypeDescription advice = Hook.advice(words[1], at - 1);
            new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(new Failures())
                .type(ElementMatchers.named(hook.type))
                .transform((builder, type, loader, module, domain) -> hook.plant(builder, advice))
                .installOn(instrumentation);
        }
    }

    private static final class Failures extends AgentBuilder.Listener.Adapter {
        @Override
        public void onError(String type, ClassLoader loader, JavaModule module, boolean loaded, Throwable failed) {
            Planted.say("failed: " + type + ": " + failed);
        }

        @Override
        public void onTransformation(
            TypeDescription type, ClassLoader loader, JavaModule module, boolean loaded,
            net.bytebuddy.dynamic.DynamicType made
        ) {
            Planted.say("hooks " + type.getName());
        }
    }
}
