package broken;

import java.util.Arrays;
import java.util.Map;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.dynamic.loading.ByteArrayClassLoader;
import net.bytebuddy.pool.TypePool;

/** Plants each bug in the classes of the class path, and prints what is wrong with it, a line a bug: NAME: ok, or why. */
public final class Check {
    private Check() {
    }

    public static void main(String[] bugs) {
        for (String bug : bugs) {
            String[] words = bug.split(":");
            String found;
            try {
                found = problem(words);
            } catch (Throwable failed) {
                found = failed.toString();
            }
            System.out.println(words[0] + ": " + (found == null ? "ok" : found.replace('\n', ' ')));
        }
        System.exit(0);
    }

    private static String problem(String[] words) throws Exception {
        ClassLoader loader = Check.class.getClassLoader();
        ClassFileLocator locator = ClassFileLocator.ForClassLoader.of(loader);
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            Hook hook = new Hook(word);
            TypeDescription type = TypePool.Default.of(locator).describe(hook.type).resolve();
            int matched = hook.matched(type);
            if (matched != 1) {
                return word + " matches " + matched + " methods";
            }
            int nth = Arrays.asList(words).indexOf(word) - 1;
            DynamicType made = hook.plant(new ByteBuddy().redefine(type, locator), Hook.advice(words[1], nth)).make();
            Map<String, byte[]> planted = Map.of(hook.type, made.getBytes());
            // The JVM verifies the class as it is initialised.
            Class.forName(hook.type, true, new ByteArrayClassLoader.ChildFirst(loader, planted));
        }
        return null;
    }
}
