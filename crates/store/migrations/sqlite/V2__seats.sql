-- Numbered seats. A reservation lists the labels of its seats, with commas; `held_seat` has a row for each as long as it
-- holds places, so that no seat is held twice in a slot, whatever anybody decided (C6).
ALTER TABLE reservation ADD COLUMN seats TEXT;

-- Whether it was offered to somebody on the waitlist (D7).
ALTER TABLE reservation ADD COLUMN offered INTEGER NOT NULL DEFAULT 0;

CREATE TABLE held_seat (
    slot_id     INTEGER NOT NULL REFERENCES slot (id),
    seat        TEXT NOT NULL,
    reservation BLOB NOT NULL REFERENCES reservation (id),
    PRIMARY KEY (slot_id, seat)
) STRICT, WITHOUT ROWID;

CREATE INDEX held_seat_by_reservation ON held_seat (reservation);
