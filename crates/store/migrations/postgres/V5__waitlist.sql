-- Who waits for a place in a slot, in order of rank (D7). Whoever was offered one, or left, is not here any more; the log
-- has what became of them.
CREATE TABLE waiting (
    slot_id bigint NOT NULL REFERENCES slot (id),
    person  uuid NOT NULL,
    name    text NOT NULL,
    party   bigint NOT NULL CHECK (party > 0),
    rank    bigint NOT NULL,
    passed  bigint NOT NULL,
    ticket  uuid NOT NULL,
    offer   uuid NOT NULL,
    since   bigint NOT NULL,
    PRIMARY KEY (slot_id, person)
);

CREATE UNIQUE INDEX one_rank_a_party ON waiting (slot_id, rank);
CREATE INDEX waiting_by_person ON waiting (person);
