import java.io.FileOutputStream;
import java.util.Iterator;
import java.util.Map;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

import org.codehaus.janino.SimpleCompiler;

/**
 * Compiles a Java agent and packs it into a jar.
 *
 * The words of the command line are the source file, the class of the agent, and the jar. A compiler that reads no
 * lambdas compiles this class.
 */
public class PackAgent {
    public static void main(String[] words) throws Exception {
        SimpleCompiler compiler = new SimpleCompiler();
        compiler.cookFile(words[0]);
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", words[1]);
        JarOutputStream jar = new JarOutputStream(new FileOutputStream(words[2]), manifest);
        for (Iterator all = compiler.getBytecodes().entrySet().iterator(); all.hasNext();) {
            Map.Entry one = (Map.Entry) all.next();
            jar.putNextEntry(new JarEntry(((String) one.getKey()).replace('.', '/') + ".class"));
            jar.write((byte[]) one.getValue());
        }
        jar.close();
    }
}
