package peer;

import org.springframework.jdbc.core.JdbcTemplate;

/** The tables, made when they are missing. */
final class Schema {
    /** The states in which a reservation holds its places. */
    static final String HELD = "status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING')";

    private static final String TABLES =
            """
            CREATE TABLE IF NOT EXISTS slot (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                venue text NOT NULL,
                date date NOT NULL,
                time time NOT NULL,
                capacity bigint NOT NULL,
                UNIQUE (venue, date, time)
            );
            CREATE TABLE IF NOT EXISTS reservation (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                slot_id bigint NOT NULL REFERENCES slot,
                person text NOT NULL,
                status text NOT NULL,
                party_size integer NOT NULL,
                payment text NOT NULL,
                price bigint NOT NULL,
                expires_at timestamptz NOT NULL,
                created_at timestamptz NOT NULL DEFAULT now()
            );
            -- Carries the party size, so that the sum of a slot can be read from it alone: one index instead of two.
            CREATE UNIQUE INDEX IF NOT EXISTS one_per_person ON reservation (slot_id, person) INCLUDE (party_size)
                WHERE %s;
            CREATE TABLE IF NOT EXISTS wallet (person text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
            """;

    static void create(JdbcTemplate jdbc) {
        jdbc.execute(TABLES.formatted(HELD));
    }

    private Schema() {}
}
