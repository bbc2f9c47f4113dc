package peer;

import com.fasterxml.jackson.annotation.JsonFormat;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Everything that PostgreSQL is asked, one transaction a call. */
@Component
final class Store {
    private static final Duration HOLD = Duration.ofMinutes(7);
    private static final String HELD = Schema.HELD;
    private static final String FIND_SLOT =
            "SELECT id, capacity FROM slot WHERE venue = ? AND date = ? AND time = ? FOR UPDATE";

    private final JdbcTemplate jdbc;
    private final TransactionTemplate transaction;
    private final int capacity;

    Store(JdbcTemplate jdbc, PlatformTransactionManager transactions, Settings settings) {
        this.jdbc = jdbc;
        this.transaction = new TransactionTemplate(transactions);
        this.capacity = settings.capacity();
        Schema.create(jdbc);
    }

    private record Slot(long id, long capacity) {}

    private record Places(long held, boolean mine) {}

    /** The row lock of the slot, the sum of what is held, and the row. */
    Booked book(String person, Wish wish) {
        try {
            return inTransaction(() -> {
                var slot = lock(wish.slot());
                var places = held(slot, person);
                if (places.mine()) {
                    throw Refused.alreadyBooked();
                }
                if (slot.capacity() < places.held() + wish.partySize()) {
                    throw Refused.notEnoughPlaces(slot.capacity() - places.held());
                }
                return insert(slot, person, wish);
            });
        } catch (DuplicateKeyException twice) {
            throw Refused.alreadyBooked();
        }
    }

    /** The slot's row, locked; made the first time that somebody books it. */
    private Slot lock(Wish.SlotName slot) {
        var found = findSlot(slot);
        if (found.isEmpty()) {
            jdbc.update(
                    "INSERT INTO slot (venue, date, time, capacity) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    slot.venueId(), slot.date(), slot.time(), capacity);
            found = findSlot(slot);
        }
        return found.get(0);
    }

    private List<Slot> findSlot(Wish.SlotName slot) {
        return jdbc.query(
                FIND_SLOT,
                (row, n) -> new Slot(row.getLong(1), row.getLong(2)),
                slot.venueId(), slot.date(), slot.time());
    }

    private Places held(Slot slot, String person) {
        return jdbc.queryForObject(
                "SELECT coalesce(sum(party_size), 0), coalesce(bool_or(person = ?), false) FROM reservation "
                        + "WHERE slot_id = ? AND " + HELD,
                (row, n) -> new Places(row.getLong(1), row.getBoolean(2)),
                person, slot.id());
    }

    private Booked insert(Slot slot, String person, Wish wish) {
        var expires = Instant.now().plus(HOLD);
        var id = jdbc.queryForObject(
                "INSERT INTO reservation (slot_id, person, status, party_size, payment, price, expires_at) "
                        + "VALUES (?, ?, 'TEMPORARY', ?, ?, ?, ?) RETURNING id",
                Long.class,
                slot.id(), person, wish.partySize(), wish.payment(), wish.deposit(), expires.atOffset(ZoneOffset.UTC));
        return new Booked(
                Long.toString(id), "TEMPORARY", wish.venueId(), wish.date(), wish.time(), wish.partySize(),
                wish.deposit(), expires);
    }

    /** A reservation of this person, its row locked. */
    private Booked own(long id, String person) {
        var found = jdbc.query(
                "SELECT r.id, r.status, s.venue, s.date, s.time, r.party_size, r.price, r.expires_at "
                        + "FROM reservation r JOIN slot s ON s.id = r.slot_id WHERE r.id = ? AND r.person = ? FOR UPDATE OF r",
                Store::read, id, person);
        if (found.isEmpty()) {
            throw Refused.notFound();
        }
        return found.get(0);
    }

    private static Booked read(ResultSet row, int n) throws SQLException {
        return new Booked(
                row.getString(1), row.getString(2), row.getString(3), row.getObject(4, LocalDate.class),
                row.getObject(5, LocalTime.class), row.getInt(6), row.getLong(7), row.getTimestamp(8).toInstant());
    }

    /** Points for a confirmed place. The places do not change, so the reservation's row lock is enough. */
    Booked pay(long id, String person) {
        return inTransaction(() -> {
            var reservation = own(id, person);
            if (!reservation.status().equals("TEMPORARY") || reservation.expiresAt().isBefore(Instant.now())) {
                throw Refused.illegalTransition(reservation.status());
            }
            var price = reservation.amountDue();
            var paid = jdbc.update(
                    "UPDATE wallet SET balance = balance - ? WHERE person = ? AND balance >= ?", price, person, price);
            if (paid == 0) {
                throw Refused.insufficientPoints();
            }
            return moved(reservation, "CONFIRMED");
        });
    }

    /** Gives the places back, and the points if any were paid. */
    Booked cancel(long id, String person) {
        return inTransaction(() -> {
            var reservation = own(id, person);
            switch (reservation.status()) {
                case "TEMPORARY" -> {}
                case "CONFIRMED" -> jdbc.update(
                        "UPDATE wallet SET balance = balance + ? WHERE person = ?", reservation.amountDue(), person);
                default -> throw Refused.illegalTransition(reservation.status());
            }
            return moved(reservation, "CANCELED");
        });
    }

    private Booked moved(Booked r, String status) {
        jdbc.update("UPDATE reservation SET status = ? WHERE id = ?", status, Long.valueOf(r.id()));
        return new Booked(r.id(), status, r.venueId(), r.date(), r.time(), r.partySize(), 0, r.expiresAt());
    }

    /** The new balance. */
    long charge(String person, long amount) {
        return jdbc.queryForObject(
                "INSERT INTO wallet (person, balance) VALUES (?, ?) "
                        + "ON CONFLICT (person) DO UPDATE SET balance = wallet.balance + excluded.balance RETURNING balance",
                Long.class, person, amount);
    }

    record Availability(@JsonFormat(pattern = "HH:mm") LocalTime time, long capacity, long remaining) {}

    /** Every half hour of the day. */
    List<Availability> availability(String venue, LocalDate date) {
        var day = new TreeMap<LocalTime, Availability>();
        for (var half = 0; half < 48; half++) {
            var time = LocalTime.of(half / 2, half % 2 * 30);
            day.put(time, new Availability(time, capacity, capacity));
        }
        booked(venue, date).forEach(slot -> day.put(slot.time(), slot));
        return List.copyOf(day.values());
    }

    /** The slots of a day that anybody has booked in. */
    private List<Availability> booked(String venue, LocalDate date) {
        return jdbc.query(
                "SELECT s.time, s.capacity, s.capacity - coalesce((SELECT sum(party_size) FROM reservation "
                        + "WHERE slot_id = s.id AND " + HELD + "), 0) FROM slot s WHERE venue = ? AND date = ? ORDER BY time",
                (row, n) -> new Availability(row.getObject(1, LocalTime.class), row.getLong(2), row.getLong(3)),
                venue, date);
    }

    /** The places that are left, also of a slot that nobody has booked yet. */
    long remaining(Wish.SlotName slot) {
        return booked(slot.venueId(), slot.date()).stream()
                .filter(one -> one.time().equals(slot.time()))
                .findFirst()
                .map(Availability::remaining)
                .orElse((long) capacity);
    }

    private <T> T inTransaction(Supplier<T> work) {
        return transaction.execute(status -> work.get());
    }
}
