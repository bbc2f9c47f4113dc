package peer;

/** What stands between a request and the transaction. */
interface Pipeline {
    /** Books, or says how many wait when the turn did not come in time; throws {@link Refused} when it is a no. */
    Outcome book(String person, Wish wish) throws InterruptedException;

    /** Gives back what the pipeline kept for a reservation that is cancelled. */
    void cancelled(String person, Wish.SlotName slot, int partySize);

    /** One of the two is null. */
    record Outcome(Booked booked, Long waitingCount) {
        static Outcome booked(Booked booked) {
            return new Outcome(booked, null);
        }

        static Outcome waiting(long count) {
            return new Outcome(null, count);
        }
    }
}
