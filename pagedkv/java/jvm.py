"""Starting the JVM inside the Python process.

A process can start a JVM once and never again: to change a flag, or to get new Java classes after a build, the
notebook's kernel has to be restarted. So `start()` is careful about the first time and does nothing the second.
"""

import faulthandler
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable

import jpype

from pagedkv.java import exceptions, interrupts, output
from pagedkv.java.build import ensure_built, utf8_locale
from pagedkv.java.jdk import Jdk, find_jdk

_starting = threading.Lock()


class JvmError(Exception):
    """The JVM cannot be started, or one runs that will not do; the message says what to do."""


def start(*flags: str) -> None:
    """Start the JVM with the project's classes and real Netty on the class path; build them first if need be.

    flags: more JVM options, such as "-Xmx2g". A second call does nothing, unless it asks for a flag that the running
    JVM does not have: then JvmError says to restart the kernel. Raises JdkNotFound, MavenNotFound or JavaBuildFailed
    if there is nothing to start.
    """
    with _starting:
        if jpype.isJVMStarted():
            _expect_usable(flags)
        else:
            jdk = find_jdk()
            for remark in jdk.remarks:
                print(remark)
            _start(jdk, ensure_built(jdk), flags)
        _settle_in()


def jclass(name):
    """The Java class of this name, or of this java.lang.Class, as Python uses it. Raises JvmError before `start()`."""
    if not jpype.isJVMStarted():
        raise JvmError("no JVM runs yet: call pagedkv.java.start() first")
    return jpype.JClass(name)


def implement(interface: str, **methods: Callable) -> jpype.JProxy:
    """A Java object of this interface; each of its methods that is called is the Python function of that name."""
    return jpype.JProxy(interface, dict=methods)


def _start(jdk: Jdk, class_path: list, flags: tuple[str, ...]) -> None:
    # A JVM under the locale "C" takes file names for ASCII, and would not find its own class path.
    os.environ.update(utf8_locale(class_path[0]))
    try:
        jpype.startJVM(str(jdk.libjvm), *_flags(jdk), *flags, classpath=[str(jar) for jar in class_path],
                       convertStrings=False,  # a Java String stays one, so that its identity can be looked at
                       interrupt=False)       # Ctrl-C and the kernel's interrupt stay Python's
    except Exception as error:
        raise JvmError(f"the JVM of {jdk.home} did not start: {error}. Check the flags {[*flags]}; if a wrong JDK was "
                       "taken, set JAVA_HOME and restart the kernel") from error
    # A class path with an ü in it is read by a class loader of JPype's, which does not tell where a class comes from; so
    # the older Netty that lies beside the class path would not be found.
    jpype.JClass("java.lang.System").setProperty("pagedkv.netty48", str(class_path[0].parent / "netty-4.1.48"))


def _flags(jdk: Jdk) -> list[str]:
    flags = [
        "-Djava.awt.headless=true",
        # SIGTERM stays Python's too: the JVM would answer it on a thread that calls into Python, and crash with it
        "-Xrs",
        "-Dfile.encoding=UTF-8",
        "-XX:+UseG1GC",  # on a small machine the JVM would choose Serial, and there would be no regions to look at
        # Netty reads the JVM's own counters of direct memory only with these; else it says -1.
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]
    if jdk.version >= 22:
        flags.append("--enable-native-access=ALL-UNNAMED")  # JPype itself is native access; a warning without it
    return flags


def _expect_usable(flags: tuple[str, ...]) -> None:
    remedy = "restart the kernel and call pagedkv.java.start() before anything else starts Java"
    try:
        jpype.JClass("pagedkv.pool.Pool")
    except TypeError:
        raise JvmError(f"a JVM runs already, without this project's classes: {remedy}") from None
    runtime = jpype.JClass("java.lang.management.ManagementFactory").getRuntimeMXBean()
    running = {str(flag) for flag in runtime.getInputArguments()}
    missing = [flag for flag in flags if flag not in running]
    if missing:
        raise JvmError(f"a JVM runs already, without {' '.join(missing)}; it cannot be started again in this process: "
                       "restart the kernel and pass the flags to the first start()")


def _settle_in() -> None:
    """What a Python process has to mind once it hosts a JVM. Safe to repeat."""
    exceptions.install()
    output.install()
    interrupts.install()
    _keep_faulthandler_out()
    # A forked child would inherit a JVM whose threads are gone, and hang in it.
    if multiprocessing.get_start_method(allow_none=True) in (None, "fork"):
        multiprocessing.set_start_method("spawn", force=True)


def _keep_faulthandler_out() -> None:
    """A JVM uses segmentation faults for its own purposes. A faulthandler enabled before is put behind the JVM's
    handler; one enabled after would take them for crashes and end the process."""
    if getattr(faulthandler.enable, "refuses", False):
        return

    def enable(*args, **kwargs) -> None:
        warnings.warn("faulthandler stays off: enabled after a JVM has started, it would end the process. "
                      "Enable it before the first pagedkv.java.start().", RuntimeWarning, stacklevel=2)

    enable.refuses = True
    faulthandler.enable = enable
