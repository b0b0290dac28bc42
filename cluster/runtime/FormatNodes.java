import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;

import kafka.tools.StorageTool;

/**
 * Formats the log directories of several nodes, one after the other, with Kafka's StorageTool.
 *
 * The words of the command line are, for each node: the file that gets what StorageTool prints, how many
 * arguments follow, and the arguments of StorageTool. The exit code is the number of the first node, from 1,
 * that could not be formatted, or 0. A compiler that reads no lambdas compiles this class.
 */
public class FormatNodes {
    private static final int RUNS = -1;

    public static void main(String[] words) throws Exception {
        final int[] status = {RUNS};
        // StorageTool ends the process it runs in. Here it ends its own call.
        onExit(new InvocationHandler() {
            public Object invoke(Object proxy, Method method, Object[] codeAndMessage) {
                if (status[0] == RUNS) {
                    status[0] = ((Integer) codeAndMessage[0]).intValue();
                    if (codeAndMessage[1] != null) {
                        System.err.println(codeAndMessage[1]);
                    }
                }
                throw new IllegalStateException("StorageTool has ended");
            }
        });
        int node = 0;
        int at = 0;
        while (at < words.length) {
            node++;
            int begin = at + 2;
            int end = begin + Integer.parseInt(words[at + 1]);
            PrintStream log = new PrintStream(new FileOutputStream(words[at], true), true);
            System.setOut(log);
            System.setErr(log);
            status[0] = RUNS;
            try {
                StorageTool.main((String[]) Arrays.copyOfRange(words, begin, end));
            } catch (Throwable failure) {
                if (status[0] == RUNS) {
                    failure.printStackTrace();
                    status[0] = 1;
                }
            }
            if (status[0] > 0) {
                Runtime.getRuntime().halt(node);
            }
            at = end;
        }
        Runtime.getRuntime().halt(0);
    }

    /** Has Kafka call this instead of ending the process. Its class Exit is in another package from 4.4 on. */
    private static void onExit(InvocationHandler handler) throws Exception {
        Class exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
        Class procedure = Class.forName(exit.getName() + "$Procedure");
        Object ours = Proxy.newProxyInstance(exit.getClassLoader(), new Class[] {procedure}, handler);
        exit.getMethod("setExitProcedure", new Class[] {procedure}).invoke(null, new Object[] {ours});
    }
}
