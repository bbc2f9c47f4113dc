package peer;

import java.time.Duration;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** The lunch-booking service: a guard against double clicks, a fair lock, one transaction. */
final class FairLockPipeline implements Pipeline {
    private static final Duration GUARD = Duration.ofSeconds(5);
    private static final long WAIT_SECONDS = 2;

    private final RedissonClient redisson;
    private final Store store;
    private final Turn turn;

    FairLockPipeline(RedissonClient redisson, Store store) {
        this.redisson = redisson;
        this.store = store;
        this.turn = new Turn(redisson, WAIT_SECONDS);
    }

    @Override
    public Outcome book(String person, Wish wish) throws InterruptedException {
        var guard = guard(person, wish.slot());
        if (!guard.setIfAbsent("1", GUARD)) {
            throw Refused.requestInProgress();
        }
        Outcome outcome = null;
        try {
            outcome = turn.take(wish.slot(), () -> store.book(person, wish));
            return outcome;
        } finally {
            // After a success it stays for its five seconds; whoever was refused or has to wait may come again.
            if (outcome == null || outcome.booked() == null) {
                guard.delete();
            }
        }
    }

    @Override
    public void cancelled(String person, Wish.SlotName slot, int partySize) {
        guard(person, slot).delete();
    }

    private RBucket<String> guard(String person, Wish.SlotName slot) {
        return redisson.getBucket("guard:" + slot.key() + ":" + person, StringCodec.INSTANCE);
    }
}
