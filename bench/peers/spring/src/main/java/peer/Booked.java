package peer;

import com.fasterxml.jackson.annotation.JsonFormat;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;

/** A reservation, as clients see it. */
record Booked(
        String id,
        String status,
        String venueId,
        LocalDate date,
        @JsonFormat(pattern = "HH:mm") LocalTime time,
        int partySize,
        long amountDue,
        Instant expiresAt) {}
