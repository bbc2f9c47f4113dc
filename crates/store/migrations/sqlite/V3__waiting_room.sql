-- Openings of sales and the waiting rooms in front of them. A venue's newest opening is the one that counts; each begins numbers
-- anew. `version` is the condition of every batch that gives out numbers or lets people in.
CREATE TABLE opening (
    id            INTEGER PRIMARY KEY,
    venue_id      INTEGER NOT NULL REFERENCES venue (id),
    version       INTEGER NOT NULL,
    -- The room: whether there is one, how many are inside at once, and how long they may stay. `largest` is the most that
    -- `size` ever was.
    enabled       INTEGER NOT NULL,
    size          INTEGER NOT NULL CHECK (size > 0),
    largest       INTEGER NOT NULL,
    idle_seconds  INTEGER NOT NULL CHECK (idle_seconds > 0),
    total_seconds INTEGER NOT NULL CHECK (total_seconds > 0),
    opens_at      INTEGER NOT NULL,
    by_order      TEXT NOT NULL CHECK (by_order IN ('arrival', 'draw')),
    -- Secret until everybody who came before has a number; only its hash is shown before.
    seed          BLOB NOT NULL,
    seed_hash     BLOB NOT NULL,
    -- Since `begun_at` nobody joins the draw any more; by `opened_at` everybody in it has a number.
    begun_at      INTEGER,
    opened_at     INTEGER,
    -- How many came in all, how many of those before it began, how many numbers were given out, and the highest let in.
    arrivals      INTEGER NOT NULL DEFAULT 0,
    entrants      INTEGER,
    numbers       INTEGER NOT NULL DEFAULT 0,
    let_in        INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX opening_of_venue ON opening (venue_id, id);

-- A place in a waiting room. Who came before the opening has no number until then; in a draw they have a lot, which is compared.
CREATE TABLE queue_token (
    opening_id INTEGER NOT NULL REFERENCES opening (id),
    arrival    INTEGER NOT NULL,
    person     BLOB NOT NULL CHECK (length(person) = 16),
    number     INTEGER,
    lot        BLOB,
    state      TEXT NOT NULL CHECK (state IN ('WAITING', 'INSIDE', 'DONE', 'LEFT', 'LAPSED')),
    asked_at   INTEGER NOT NULL,
    let_in_at  INTEGER,
    seen_at    INTEGER,
    ended_at   INTEGER,
    PRIMARY KEY (opening_id, arrival),
    CHECK (state <> 'INSIDE' OR (number IS NOT NULL AND let_in_at IS NOT NULL AND seen_at IS NOT NULL))
) STRICT;

-- One live token a person and opening (C1).
CREATE UNIQUE INDEX one_token_a_person ON queue_token (opening_id, person) WHERE state IN ('WAITING', 'INSIDE');
-- No number twice in an opening (C1).
CREATE UNIQUE INDEX one_token_a_number ON queue_token (opening_id, number) WHERE number IS NOT NULL;
-- What is read of a room of any length: who is inside, who is next, and who left before their turn.
CREATE INDEX token_inside ON queue_token (person) WHERE state = 'INSIDE';
CREATE INDEX token_inside_of ON queue_token (opening_id, number) WHERE state = 'INSIDE';
CREATE INDEX token_left ON queue_token (opening_id, number) WHERE state = 'LEFT' AND number IS NOT NULL;
-- Who waits for the opening, by arrival or by lot.
CREATE INDEX token_unnumbered ON queue_token (opening_id, lot, arrival) WHERE state = 'WAITING' AND number IS NULL;
-- What somebody's tokens came to.
CREATE INDEX token_of_person ON queue_token (opening_id, person, arrival);
