package peer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.LocalDate;
import java.util.Map;
import org.redisson.client.RedisException;
import org.springframework.dao.DataAccessException;
import org.springframework.http.HttpHeaders;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.http.converter.HttpMessageNotReadableException;
import org.springframework.transaction.TransactionException;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** The calls. Answers are written as bytes, so that they have a length and leave in one piece. */
@RestController
final class Api {
    private final Pipeline pipeline;
    private final Store store;
    private final ObjectMapper json;

    Api(Pipeline pipeline, Store store, ObjectMapper json) {
        this.pipeline = pipeline;
        this.store = store;
        this.json = json;
    }

    @PostMapping("/api/reservations")
    ResponseEntity<byte[]> book(
            @RequestHeader(value = "Authorization", required = false) String bearer, @RequestBody Wish wish)
            throws InterruptedException {
        if (wish.venueId() == null || wish.date() == null || wish.time() == null || wish.payment() == null) {
            throw Refused.invalid("venueId, date, time, partySize and payment are needed.");
        }
        if (wish.partySize() < 1 || wish.partySize() > 100) {
            throw Refused.invalid("partySize is from 1 to 100.");
        }
        var outcome = pipeline.book(person(bearer), wish);
        if (outcome.booked() == null) {
            return answer(202, Map.of("waitingCount", outcome.waitingCount()), "2", null);
        }
        return answer(201, outcome.booked(), null, "/api/reservations/" + outcome.booked().id());
    }

    @PostMapping("/api/reservations/{id}/payment")
    ResponseEntity<byte[]> pay(@RequestHeader("Authorization") String bearer, @PathVariable long id) {
        return answer(200, store.pay(id, person(bearer)), null, null);
    }

    @PostMapping("/api/reservations/{id}/cancel")
    ResponseEntity<byte[]> cancel(@RequestHeader("Authorization") String bearer, @PathVariable long id) {
        var person = person(bearer);
        var cancelled = store.cancel(id, person);
        var slot = new Wish.SlotName(cancelled.venueId(), cancelled.date(), cancelled.time());
        pipeline.cancelled(person, slot, cancelled.partySize());
        return answer(200, cancelled, null, null);
    }

    record Charge(long amount) {}

    @PostMapping("/api/wallet/charges")
    ResponseEntity<byte[]> charge(@RequestHeader("Authorization") String bearer, @RequestBody Charge charge) {
        if (charge.amount() < 1 || charge.amount() > 1_000_000_000) {
            throw Refused.invalid("amount is from 1 to 1,000,000,000.");
        }
        return answer(201, Map.of("balance", store.charge(person(bearer), charge.amount())), null, null);
    }

    /** Every venue is like every other. */
    @GetMapping("/api/venues/{venue}")
    ResponseEntity<byte[]> venue(@PathVariable String venue) {
        return answer(200, Map.of("id", venue, "name", "Spring and Redisson", "inventory", "places"), null, null);
    }

    @GetMapping("/api/venues/{venue}/availability")
    ResponseEntity<byte[]> availability(@PathVariable String venue, @RequestParam LocalDate date) {
        var list = new java.util.HashMap<String, Object>();
        list.put("items", store.availability(venue, date));
        list.put("next", null);
        return answer(200, list, null, null);
    }

    @GetMapping("/health/ready")
    ResponseEntity<byte[]> ready() {
        return answer(200, Map.of("status", "ready"), null, null);
    }

    /** Whoever the caller says to be: nothing is verified, which costs nothing. */
    private static String person(String bearer) {
        if (bearer == null || !bearer.startsWith("Bearer ") || bearer.length() > 1_024) {
            throw Refused.unauthenticated();
        }
        return bearer.substring("Bearer ".length());
    }

    @ExceptionHandler
    ResponseEntity<byte[]> refused(Refused refused) {
        var retry = refused.status == 429 || refused.status == 503 ? "1" : null;
        return ResponseEntity.status(refused.status)
                .contentType(MediaType.APPLICATION_PROBLEM_JSON)
                .headers(headers -> set(headers, HttpHeaders.RETRY_AFTER, retry))
                .body(bytes(refused.problem));
    }

    @ExceptionHandler
    ResponseEntity<byte[]> unreadable(HttpMessageNotReadableException unreadable) {
        return refused(Refused.invalid("The body cannot be read as the JSON that is needed."));
    }

    /** Redis or PostgreSQL had no answer in time: the client may try again. */
    @ExceptionHandler({RedisException.class, DataAccessException.class, TransactionException.class})
    ResponseEntity<byte[]> failed(Exception failed) {
        return refused(Refused.unavailable(failed.getClass().getSimpleName()));
    }

    private ResponseEntity<byte[]> answer(int status, Object body, String retryAfter, String location) {
        return ResponseEntity.status(status)
                .contentType(MediaType.APPLICATION_JSON)
                .headers(headers -> {
                    set(headers, HttpHeaders.RETRY_AFTER, retryAfter);
                    set(headers, HttpHeaders.LOCATION, location);
                })
                .body(bytes(body));
    }

    private static void set(HttpHeaders headers, String name, String value) {
        if (value != null) {
            headers.set(name, value);
        }
    }

    private byte[] bytes(Object body) {
        try {
            return json.writeValueAsBytes(body);
        } catch (JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
