package pagedkv.notebook;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Method;

/** A body compiled from a cell, called through a method handle: that leaves shorter stack traces than reflection. */
record LoadedBody(MethodHandle code, ClassLoader loader) implements CellBody {

    static LoadedBody in(ClassLoader loader, BodyNames names) throws ReflectiveOperationException {
        Method run = Class.forName(names.bodyClass(), false, loader).getDeclaredMethod(names.runMethod());
        run.setAccessible(true);
        return new LoadedBody(MethodHandles.lookup().unreflect(run), loader);
    }

    @Override
    public void run() throws Throwable {
        code.invokeExact();
    }
}
