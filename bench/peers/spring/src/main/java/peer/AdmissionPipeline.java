package peer;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RBucket;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RSemaphore;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * The decision record's service: rate limiter, fair lock, a semaphore with the slot's places, a claim, one transaction.
 * What was taken is given back on every path that does not end in a reservation.
 */
final class AdmissionPipeline implements Pipeline {
    private static final Duration CLAIM = Duration.ofHours(2);
    private static final long WAIT_SECONDS = 10;

    private final RedissonClient redisson;
    private final Store store;
    private final Turn turn;
    private final long ratePerSecond;
    /** What this process has set up already, so that it asks Redis once and not at every request. */
    private final Set<String> ready = ConcurrentHashMap.newKeySet();

    AdmissionPipeline(RedissonClient redisson, Store store, long ratePerSecond) {
        this.redisson = redisson;
        this.store = store;
        this.ratePerSecond = ratePerSecond;
        this.turn = new Turn(redisson, WAIT_SECONDS);
    }

    @Override
    public Outcome book(String person, Wish wish) throws InterruptedException {
        if (!limiter(wish.venueId()).tryAcquire()) {
            throw Refused.rateLimited();
        }
        return turn.take(wish.slot(), () -> admitted(person, wish));
    }

    private Booked admitted(String person, Wish wish) {
        var places = places(wish.slot());
        if (!places.tryAcquire(wish.partySize())) {
            throw Refused.notEnoughPlaces(places.availablePermits());
        }
        var claim = claim(person, wish.slot());
        boolean claimed = false;
        boolean booked = false;
        try {
            claimed = claim.setIfAbsent("1", CLAIM);
            if (!claimed) {
                throw Refused.alreadyBooked();
            }
            var reservation = store.book(person, wish);
            booked = true;
            return reservation;
        } finally {
            if (!booked) {
                places.release(wish.partySize());
                if (claimed) {
                    claim.delete();
                }
            }
        }
    }

    @Override
    public void cancelled(String person, Wish.SlotName slot, int partySize) {
        claim(person, slot).delete();
        places(slot).release(partySize);
    }

    private RRateLimiter limiter(String venue) {
        var limiter = redisson.getRateLimiter("rate:" + venue);
        if (!ready.contains(limiter.getName())) {
            limiter.trySetRate(RateType.OVERALL, ratePerSecond, Duration.ofSeconds(1));
            ready.add(limiter.getName());
        }
        return limiter;
    }

    private RSemaphore places(Wish.SlotName slot) {
        var places = redisson.getSemaphore("places:" + slot.key());
        if (!ready.contains(places.getName())) {
            places.trySetPermits((int) store.remaining(slot));
            ready.add(places.getName());
        }
        return places;
    }

    private RBucket<String> claim(String person, Wish.SlotName slot) {
        return redisson.getBucket("claim:" + slot.key() + ":" + person, StringCodec.INSTANCE);
    }
}
