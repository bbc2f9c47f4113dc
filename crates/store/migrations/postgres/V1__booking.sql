-- The truth about bookings. Ids of 128 bits are uuids: 16 bytes, compared bytewise, whatever their bits mean; instants are
-- milliseconds since 1970, UTC; money is won. Numbers that the program keeps unsigned are bigint, so that all of them fit.

-- The lives of lines: each draws its own, so that its numbers are compared with none of another. Drawing waits for nobody,
-- and seldom for the disk: a crash takes back only draws that nothing stored since refers to.
-- Ticket ids have 29 bits for them.
CREATE SEQUENCE epoch AS integer MAXVALUE 536870911;

-- What all processes share and nobody else may know, such as the key that signs access tokens.
CREATE TABLE secret (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

-- Ends a transaction from within a statement, with a reason of ours and the ticket it is about. So a whole batch can be sent
-- at once: when its condition does not hold, nothing of what follows takes effect.
CREATE FUNCTION refuse(reason text, ticket uuid DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = reason, MESSAGE = 'refused', DETAIL = coalesce(ticket::text, '');
END $$;

CREATE TABLE account (
    id            uuid PRIMARY KEY,
    email         text NOT NULL,
    name          text NOT NULL,
    password_hash text NOT NULL,
    created_at    bigint NOT NULL
);

-- However it is written: "C" folds the letters of ASCII and nothing else.
CREATE UNIQUE INDEX one_account_an_email ON account (lower(email COLLATE "C"));

-- `version` counts every change of the venue, its menu or its staff; batches are conditional on it.
CREATE TABLE venue (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version  bigint NOT NULL,
    settings text NOT NULL
);

CREATE TABLE menu_item (
    venue_id integer NOT NULL REFERENCES venue (id),
    id       bigint NOT NULL,
    name     text NOT NULL,
    price    bigint NOT NULL CHECK (price >= 0),
    PRIMARY KEY (venue_id, id)
);

CREATE TABLE staff (
    venue_id integer NOT NULL REFERENCES venue (id),
    person   uuid NOT NULL,
    PRIMARY KEY (venue_id, person)
);

-- Made when somebody first books it. The id is venue, day and minute; the version is the condition of every batch. Room on
-- the page lets every batch of a hot slot update its row in place.
CREATE TABLE slot (
    id      bigint PRIMARY KEY,
    version bigint NOT NULL CHECK (version > 0)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
    id         uuid PRIMARY KEY,
    slot_id    bigint NOT NULL REFERENCES slot (id),
    person     uuid NOT NULL,
    name       text NOT NULL,
    status     text NOT NULL CHECK (status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING',
                                               'REFUNDED', 'EXPIRED', 'CANCELED', 'COMPLETED', 'NO_SHOW')),
    party      bigint NOT NULL CHECK (party > 0),
    table_no   bigint,
    payment    text NOT NULL CHECK (payment IN ('deposit', 'prepay')),
    items      text,
    price      bigint NOT NULL CHECK (price >= 0),
    paid       bigint NOT NULL CHECK (paid >= 0),
    refunded   bigint NOT NULL CHECK (refunded BETWEEN 0 AND paid),
    refund_due bigint NOT NULL CHECK (refund_due BETWEEN 0 AND paid - refunded),
    expires_at bigint NOT NULL,
    note       text,
    ticket     uuid NOT NULL,
    created_at bigint NOT NULL,
    version    bigint NOT NULL,
    reseats    uuid
);

-- One place-holding reservation a person and slot (A4).
CREATE UNIQUE INDEX one_place_a_person ON reservation (slot_id, person)
    WHERE status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING');

-- No table twice in a slot (B1).
CREATE UNIQUE INDEX one_party_a_table ON reservation (slot_id, table_no)
    WHERE table_no IS NOT NULL AND status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING');

-- A ticket wins at most one reservation, however often its batch is run again.
CREATE UNIQUE INDEX one_reservation_a_ticket ON reservation (ticket);

-- The day of a venue, whatever became of its reservations; the unique indexes know only those that hold places.
CREATE INDEX reservation_by_slot ON reservation (slot_id);
CREATE INDEX reservation_by_person ON reservation (person, created_at);
CREATE INDEX hold_by_deadline ON reservation (expires_at) WHERE status = 'TEMPORARY';

-- One row a batch, written with its changes and on the same condition; never changed afterwards. The ranges are the
-- places (epoch and number) of the guests and of the owners that it decided, for finding a ticket's row.
CREATE TABLE decision (
    slot_id     bigint NOT NULL REFERENCES slot (id),
    version     bigint NOT NULL,
    decided_at  bigint NOT NULL,
    guests_from bigint,
    guests_to   bigint,
    owners_from bigint,
    owners_to   bigint,
    decisions   text NOT NULL,
    PRIMARY KEY (slot_id, version)
);

CREATE INDEX decision_by_guest ON decision (slot_id, guests_to) WHERE guests_to IS NOT NULL;
CREATE INDEX decision_by_owner ON decision (slot_id, owners_to) WHERE owners_to IS NOT NULL;

-- What an Idempotency-Key was used for.
CREATE TABLE request_key (
    person uuid NOT NULL,
    key    text NOT NULL,
    body   bytea NOT NULL,
    ticket uuid NOT NULL,
    at     bigint NOT NULL,
    CONSTRAINT one_request_a_key PRIMARY KEY (person, key)
);

CREATE INDEX request_key_by_age ON request_key (at);

CREATE TABLE wallet (
    person  uuid PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0),
    version bigint NOT NULL
);

-- Every movement of money; the balance of a wallet is the sum of its entries.
CREATE TABLE wallet_entry (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person      uuid NOT NULL REFERENCES wallet (person),
    amount      bigint NOT NULL,
    balance     bigint NOT NULL CHECK (balance >= 0),
    kind        text NOT NULL CHECK (kind IN ('charge', 'payment', 'refund')),
    reservation uuid,
    key         text,
    at          bigint NOT NULL
);

CREATE INDEX wallet_entry_by_person ON wallet_entry (person, id);
CREATE UNIQUE INDEX one_charge_a_key ON wallet_entry (person, key) WHERE key IS NOT NULL;
