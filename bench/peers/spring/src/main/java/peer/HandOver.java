package peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** One fair lock that goes from hand to hand while the line stays as long: whoever had it goes to its end. */
final class HandOver {
    private static final AtomicInteger NEXT = new AtomicInteger();

    /** With a client of its own, because ten thousand who wait are only got rid of with it. */
    static Measured run(String url, Redis.Pools pools, int waiters, Duration time) throws InterruptedException {
        var redisson = Redis.connect(url, pools);
        var over = new AtomicBoolean();
        var threads = new ArrayList<Thread>();
        try {
            return measure(redisson, over, threads, waiters, time);
        } finally {
            over.set(true);
            // Not after everybody has had a turn: with a long line that takes minutes.
            redisson.shutdown(0, 1, TimeUnit.SECONDS);
            threads.forEach(Thread::interrupt);
        }
    }

    private static Measured measure(
            RedissonClient redisson, AtomicBoolean over, ArrayList<Thread> threads, int waiters, Duration time)
            throws InterruptedException {
        var name = "hot:" + ProcessHandle.current().pid() + ":" + NEXT.incrementAndGet();
        var lock = redisson.getFairLock(name);
        var done = new LongAdder();
        var failed = new LongAdder();
        lock.lock();
        for (int n = 0; n < waiters; n++) {
            threads.add(Threads.start(() -> {
                while (!over.get()) {
                    try {
                        lock.lockInterruptibly();
                        done.increment();
                        lock.unlock();
                    } catch (InterruptedException told) {
                        return;
                    } catch (RuntimeException trouble) {
                        failed.increment();
                    }
                }
            }));
        }
        long queued = untilQueued(redisson, name, waiters);
        long start = System.nanoTime();
        lock.unlock();
        TimeUnit.NANOSECONDS.sleep(time.toNanos());
        return new Measured(done.sum(), (System.nanoTime() - start) / 1e9, failed.sum(), queued);
    }

    /** Until all of them stand in line and listen, or nobody has come for a while: small pools never let everybody in. */
    private static long untilQueued(RedissonClient redisson, String name, int waiters) throws InterruptedException {
        long patience = TimeUnit.SECONDS.toNanos(8);
        long listening = 0;
        for (long last = System.nanoTime(); listening < waiters && System.nanoTime() - last < patience; ) {
            Thread.sleep(100);
            long now = listening(redisson, name);
            if (now > listening) {
                listening = now;
                last = System.nanoTime();
            }
        }
        return listening;
    }

    /** Everybody in line has a channel of its own, and has it only after entering the line. */
    private static long listening(RedissonClient redisson, String name) {
        return redisson.getScript(StringCodec.INSTANCE)
                .eval(
                        RScript.Mode.READ_ONLY,
                        "return #redis.call('pubsub', 'channels', ARGV[1])",
                        RScript.ReturnType.LONG,
                        List.of(),
                        "redisson_lock__channel:{" + name + "}*");
    }

    private HandOver() {}
}
