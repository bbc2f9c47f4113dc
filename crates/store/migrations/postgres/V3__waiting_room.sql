-- Openings of sales and the waiting rooms in front of them. A venue's newest opening is the one that counts; each begins numbers
-- anew. `version` is the condition of every batch that gives out numbers or lets people in.
CREATE TABLE opening (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    venue_id      integer NOT NULL REFERENCES venue (id),
    version       bigint NOT NULL,
    -- The room: whether there is one, how many are inside at once, and how long they may stay. `largest` is the most that
    -- `size` ever was.
    enabled       boolean NOT NULL,
    size          bigint NOT NULL CHECK (size > 0),
    largest       bigint NOT NULL,
    idle_seconds  bigint NOT NULL CHECK (idle_seconds > 0),
    total_seconds bigint NOT NULL CHECK (total_seconds > 0),
    opens_at      bigint NOT NULL,
    by_order      text NOT NULL CHECK (by_order IN ('arrival', 'draw')),
    -- Secret until everybody who came before has a number; only its hash is shown before.
    seed          bytea NOT NULL,
    seed_hash     bytea NOT NULL,
    -- Since `begun_at` nobody joins the draw any more; by `opened_at` everybody in it has a number.
    begun_at      bigint,
    opened_at     bigint,
    -- How many came in all, how many of those before it began, how many numbers were given out, and the highest let in.
    arrivals      bigint NOT NULL DEFAULT 0,
    entrants      bigint,
    numbers       bigint NOT NULL DEFAULT 0,
    let_in        bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE INDEX opening_of_venue ON opening (venue_id, id);

-- A place in a waiting room. Who came before the opening has no number until then; in a draw they have a lot, which is compared.
CREATE TABLE queue_token (
    opening_id bigint NOT NULL REFERENCES opening (id),
    arrival    bigint NOT NULL,
    person     uuid NOT NULL,
    number     bigint,
    lot        bytea,
    state      text NOT NULL CHECK (state IN ('WAITING', 'INSIDE', 'DONE', 'LEFT', 'LAPSED')),
    asked_at   bigint NOT NULL,
    let_in_at  bigint,
    seen_at    bigint,
    ended_at   bigint,
    PRIMARY KEY (opening_id, arrival),
    CHECK (state <> 'INSIDE' OR (number IS NOT NULL AND let_in_at IS NOT NULL AND seen_at IS NOT NULL))
) WITH (fillfactor = 80);

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
