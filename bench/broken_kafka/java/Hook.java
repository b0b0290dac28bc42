package broken;

import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.pool.TypePool;

/** A method of Kafka: `class#method`, or `class#method/ARGUMENTS` with their number or their simple types. */
final class Hook {
    private static final ClassFileLocator CLASSES = ClassFileLocator.ForClassLoader.ofSystemLoader();
    private static final TypePool POOL = TypePool.Default.of(CLASSES);

    final String type;
    private final String method;
    private final String arguments;

    Hook(String text) {
        String[] parts = text.split("[#/]");
        type = parts[0];
        method = parts[1];
        arguments = parts.length > 2 ? parts[2] : null;
    }

    /**
     * Return the class with the advice for the nth hook of a bug.
     *
     * It is not loaded: that would load the classes of Kafka in its signatures, perhaps the one that is being changed.
     */
    static TypeDescription advice(String name, int nth) {
        for (String tried : new String[] {nth == 1 ? name : name + nth, name}) {
            for (String area : new String[] {
                "Controller", "Leader", "Follower", "Log", "Kraft", "Group", "Transactions", "ProducerState"
            }) {
                TypePool.Resolution found = POOL.describe("broken." + area + "$" + tried);
                if (found.isResolved()) {
                    return found.resolve();
                }
            }
        }
        throw new IllegalArgumentException("no class has the advice " + name);
    }

    DynamicType.Builder<?> plant(DynamicType.Builder<?> builder, TypeDescription advice) {
        ElementMatcher<MethodDescription> matcher = this::matches;
        return builder.visit(Advice.to(advice, CLASSES).on(matcher));
    }

    /** Return how many methods of the class are hooked; exactly one should be. */
    int matched(TypeDescription of) {
        return of.getDeclaredMethods().filter((ElementMatcher<MethodDescription>) this::matches).size();
    }

    private boolean matches(MethodDescription one) {
        if (!one.getName().equals(method)) {
            return false;
        }
        if (arguments == null) {
            return !one.isBridge();
        }
        List<String> types = new ArrayList<>();
        for (TypeDescription.Generic argument : one.getParameters().asTypeList()) {
            types.add(argument.asErasure().getSimpleName());
        }
        return arguments.equals(String.valueOf(types.size())) || arguments.equals(String.join(",", types));
    }
}
