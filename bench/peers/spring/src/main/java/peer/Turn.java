package peer;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The fair lock of a slot, and the count of those who wait for it. */
final class Turn {
    private final RedissonClient redisson;
    private final long waitSeconds;

    Turn(RedissonClient redisson, long waitSeconds) {
        this.redisson = redisson;
        this.waitSeconds = waitSeconds;
    }

    interface Work {
        Booked run();
    }

    /** Does the work when the turn comes. The transaction is inside: the lock is left after the commit. */
    Pipeline.Outcome take(Wish.SlotName slot, Work work) throws InterruptedException {
        var counter = redisson.getAtomicLong("waiting:" + slot.key());
        RLock lock = redisson.getFairLock("lock:" + slot.key());
        // Nobody waits for the counter's answers, except whoever shows it: two trips less for everybody else.
        counter.incrementAndGetAsync();
        // Without a lease: the watchdog renews the lock for as long as this process lives.
        boolean mine;
        try {
            mine = lock.tryLock(waitSeconds, TimeUnit.SECONDS);
        } catch (InterruptedException | RuntimeException failed) {
            counter.decrementAndGetAsync();
            throw failed;
        }
        if (!mine) {
            return Pipeline.Outcome.waiting(Math.max(1, counter.decrementAndGet() + 1));
        }
        counter.decrementAndGetAsync();
        try {
            return Pipeline.Outcome.booked(work.run());
        } finally {
            leave(lock);
        }
    }

    private static void leave(RLock lock) {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException lost) {
            // Lost while we had it. What was committed stays committed: the row lock kept it right.
        }
    }
}
