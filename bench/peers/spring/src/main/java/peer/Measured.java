package peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;

/**
 * What a measurement came to.
 *
 * @param failed calls that threw: with pools that are too small, those who found no room to wait
 * @param queued how many really stood in line when it began
 */
record Measured(long done, double seconds, long failed, long queued) {
    /** Something done once, against Redis. */
    interface Step {
        void run(int task) throws InterruptedException;
    }

    /** So many tasks that do the same again and again, for so long. */
    static Measured repeat(int tasks, Duration time, Step step) throws InterruptedException {
        var over = new AtomicBoolean();
        var done = new LongAdder();
        var failed = new LongAdder();
        var go = new CountDownLatch(1);
        var threads = new ArrayList<Thread>();
        for (int n = 0; n < tasks; n++) {
            int task = n;
            threads.add(Threads.start(() -> {
                try {
                    go.await();
                    while (!over.get()) {
                        try {
                            step.run(task);
                            done.increment();
                        } catch (RuntimeException trouble) {
                            failed.increment();
                        }
                    }
                } catch (InterruptedException told) {
                    // The time is over.
                }
            }));
        }
        long start = System.nanoTime();
        go.countDown();
        TimeUnit.NANOSECONDS.sleep(time.toNanos());
        long counted = done.sum();
        double seconds = (System.nanoTime() - start) / 1e9;
        over.set(true);
        for (var thread : threads) {
            thread.join(2_000);
        }
        return new Measured(counted, seconds, failed.sum(), 0);
    }
}
