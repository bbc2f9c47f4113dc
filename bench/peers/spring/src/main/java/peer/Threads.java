package peer;

import java.lang.reflect.Method;

/** Threads for those who wait: virtual ones where Java has them (21 and later), light ones of the system elsewhere. */
final class Threads {
    /** Enough for a lock's call stack; ten thousand of the usual size would not fit everywhere. */
    private static final long STACK = 256 * 1024;
    private static final Method VIRTUAL = virtual();

    static boolean areVirtual() {
        return VIRTUAL != null;
    }

    static Thread start(Runnable work) {
        if (VIRTUAL != null) {
            try {
                return (Thread) VIRTUAL.invoke(null, work);
            } catch (ReflectiveOperationException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
        var thread = new Thread(null, work, "waiter", STACK);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Found by name, because these classes are compiled for Java 17. */
    private static Method virtual() {
        if (Runtime.version().feature() < 21) {
            return null;
        }
        try {
            return Thread.class.getMethod("startVirtualThread", Runnable.class);
        } catch (NoSuchMethodException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private Threads() {}
}
