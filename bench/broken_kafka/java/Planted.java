package broken;

import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** What the bugs share: the line that says that a bug acted, and a way to what is private in Kafka. */
public final class Planted {
    /** The log of a node has a line that begins with it when the agent loads, and when the bug acts. */
    public static final String MARK = "PLANTED-BUG";

    private static volatile String name = "nothing";
    private static final AtomicLong ACTED = new AtomicLong();
    private static final AtomicLong CALLS = new AtomicLong();

    private Planted() {
    }

    static void named(String bug) {
        name = bug;
        say("is planted");
    }

    static void say(String what) {
        System.out.println(MARK + " " + name + " " + what);
    }

    /** The bug acts now: it does something else than Kafka would. A line is written at 1, 10, 100 and so on. */
    public static boolean acts() {
        long count = ACTED.incrementAndGet();
        long power = 1;
        while (power < count) {
            power *= 10;
        }
        if (power == count) {
            say("acted " + count);
        }
        return true;
    }

    /** Whether this is every nth call. */
    public static boolean isEvery(int nth) {
        return CALLS.incrementAndGet() % nth == 0;
    }

    /** Whether the topic is one of the scenario's, and none of Kafka's own. */
    public static boolean isUsers(String topic) {
        return !topic.startsWith("__");
    }

    /** Whether the folder of a log is that of a partition of the scenario's topics. */
    public static boolean isUsers(File folder) {
        return isUsers(folder.getName());
    }

    public static boolean isOnThread(String begins) {
        return Thread.currentThread().getName().startsWith(begins);
    }

    /** Return the value of a private field. */
    public static Object get(Object target, String field) {
        try {
            return accessible(target.getClass(), field).get(target);
        } catch (ReflectiveOperationException failed) {
            throw wrong(failed);
        }
    }

    /** Set a private field, also a final one. */
    public static void set(Object target, String field, Object value) {
        try {
            accessible(target.getClass(), field).set(target, value);
        } catch (ReflectiveOperationException failed) {
            throw wrong(failed);
        }
    }

    /** Call the only method of this name with as many arguments. */
    public static Object call(Object target, String method, Object... arguments) {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Method one : type.getDeclaredMethods()) {
                if (one.getName().equals(method) && one.getParameterCount() == arguments.length) {
                    try {
                        one.setAccessible(true);
                        return one.invoke(target, arguments);
                    } catch (ReflectiveOperationException failed) {
                        throw wrong(failed);
                    }
                }
            }
        }
        throw wrong(new NoSuchMethodException(target.getClass() + "." + method));
    }

    /** Return a list without the items whose text has a word. */
    public static <T> List<T> without(List<T> items, String word) {
        List<T> kept = new ArrayList<>();
        for (T item : items) {
            if (!item.toString().contains(word)) {
                kept.add(item);
            }
        }
        return kept;
    }

    private static Field accessible(Class<?> of, String name) throws NoSuchFieldException {
        for (Class<?> type = of; type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        throw new NoSuchFieldException(of + "." + name);
    }

    private static IllegalStateException wrong(Exception failed) {
        say("failed: " + failed);
        return new IllegalStateException(failed);
    }
}
