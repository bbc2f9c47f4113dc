package peer;

import java.util.LinkedHashMap;
import java.util.Map;

/** An answer that is no: its status, and the problem that tells programs apart what happened. */
final class Refused extends RuntimeException {
    final int status;
    final Map<String, Object> problem = new LinkedHashMap<>();

    private Refused(int status, String code, String detail) {
        // Without a stack trace: refusals are answers, and most answers of a rush.
        super(detail, null, false, false);
        this.status = status;
        problem.put("type", "about:blank");
        problem.put("title", code);
        problem.put("status", status);
        problem.put("detail", detail);
        problem.put("code", code);
    }

    static Refused notEnoughPlaces(long remaining) {
        var refused = new Refused(409, "not-enough-places", "Only " + remaining + " places are left.");
        refused.problem.put("remaining", remaining);
        return refused;
    }

    static Refused alreadyBooked() {
        return new Refused(409, "already-booked", "You already have a reservation in this slot.");
    }

    static Refused requestInProgress() {
        return new Refused(409, "request-in-progress", "Your last request is still being worked on.");
    }

    static Refused rateLimited() {
        return new Refused(429, "rate-limited", "Too many requests for this venue. Try again in a second.");
    }

    static Refused illegalTransition(String from) {
        return new Refused(409, "illegal-transition", "The reservation is " + from + ".");
    }

    static Refused insufficientPoints() {
        return new Refused(409, "insufficient-points", "There are not enough points.");
    }

    static Refused notFound() {
        return new Refused(404, "not-found", "There is no such reservation of yours.");
    }

    static Refused unauthenticated() {
        return new Refused(401, "unauthenticated", "Send Authorization: Bearer and who you are.");
    }

    static Refused invalid(String detail) {
        return new Refused(422, "invalid-request", detail);
    }

    static Refused unavailable(String detail) {
        return new Refused(503, "unavailable", detail);
    }
}
