-- Numbered seats. A reservation lists the labels of its seats, with commas; `held_seat` has a row for each as long as it
-- holds places, so that no seat is held twice in a slot, whatever anybody decided (C6).
ALTER TABLE reservation ADD COLUMN seats text;

-- Whether it was offered to somebody on the waitlist (D7).
ALTER TABLE reservation ADD COLUMN offered boolean NOT NULL DEFAULT false;

CREATE TABLE held_seat (
    slot_id     bigint NOT NULL REFERENCES slot (id),
    seat        text NOT NULL,
    reservation uuid NOT NULL REFERENCES reservation (id),
    CONSTRAINT one_holder_a_seat PRIMARY KEY (slot_id, seat)
);

CREATE INDEX held_seat_by_reservation ON held_seat (reservation);
