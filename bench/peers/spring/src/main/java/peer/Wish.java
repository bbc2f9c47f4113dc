package peer;

import java.time.LocalDate;
import java.time.LocalTime;

/** What a guest asks for. */
record Wish(String venueId, LocalDate date, LocalTime time, int partySize, String payment) {
    /** 5,000 won a head, 10,000 for parties of seven or more. */
    long deposit() {
        return partySize * (partySize >= 7 ? 10_000L : 5_000L);
    }

    SlotName slot() {
        return new SlotName(venueId, date, time);
    }

    /** A slot, before it has a row. */
    record SlotName(String venueId, LocalDate date, LocalTime time) {
        /** Its part of the keys in Redis. */
        String key() {
            return venueId + ":" + date + ":" + time;
        }
    }
}
