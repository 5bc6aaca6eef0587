package pagedkv.jvm;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;

/** What {@code jcmd} can ask of a JVM, asked from inside it: diagnostic commands, and the values of its flags. */
final class Diagnostics {

    private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();

    private Diagnostics() {
    }

    /** The text that a diagnostic command without options answers, such as {@code vmInfo} for {@code VM.info}. */
    static String ask(String command) {
        return invoke(command, new Object[0], new String[0]);
    }

    /** The same for a command that takes options, each of the form {@code name=value}. */
    static String ask(String command, String... options) {
        return invoke(command, new Object[] {options}, new String[] {String[].class.getName()});
    }

    private static String invoke(String command, Object[] arguments, String[] signature) {
        try {
            var bean = new ObjectName("com.sun.management:type=DiagnosticCommand");
            return String.valueOf(SERVER.invoke(bean, command, arguments, signature));
        } catch (MalformedObjectNameException impossible) {
            throw new AssertionError(impossible);
        } catch (JMException refused) {
            throw new IllegalStateException("this JVM does not answer the diagnostic command " + command
                    + ": a HotSpot JVM of JDK 17 or newer does", refused);
        }
    }

    /** The value of a JVM flag as it is in force, such as {@code G1HeapRegionSize}. */
    static long flag(String name) {
        return Long.parseLong(flagText(name));
    }

    static boolean isOn(String name) {
        return Boolean.parseBoolean(flagText(name));
    }

    private static String flagText(String name) {
        try {
            return ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class).getVMOption(name).getValue();
        } catch (IllegalArgumentException unknown) {
            return "false"; // a build of the JVM without this collector has no flag for it
        }
    }
}
