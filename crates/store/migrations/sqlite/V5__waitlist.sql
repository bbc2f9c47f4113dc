-- Who waits for a place in a slot, in order of rank (D7). Whoever was offered one, or left, is not here any more; the log
-- has what became of them.
CREATE TABLE waiting (
    slot_id INTEGER NOT NULL REFERENCES slot (id),
    person  BLOB NOT NULL CHECK (length(person) = 16),
    name    TEXT NOT NULL,
    party   INTEGER NOT NULL CHECK (party > 0),
    rank    INTEGER NOT NULL,
    passed  INTEGER NOT NULL,
    ticket  BLOB NOT NULL CHECK (length(ticket) = 16),
    offer   BLOB NOT NULL CHECK (length(offer) = 16),
    since   INTEGER NOT NULL,
    PRIMARY KEY (slot_id, person)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX one_rank_a_party ON waiting (slot_id, rank);
CREATE INDEX waiting_by_person ON waiting (person);
