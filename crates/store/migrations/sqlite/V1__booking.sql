-- The truth about bookings. Ids of 128 bits are 16-byte blobs; instants are milliseconds since 1970, UTC; money is won.

CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The life of lines that are kept in memory: drawn anew by each process, so that its numbers are compared with its own.
INSERT INTO counter (name, value) VALUES ('epoch', 0);

CREATE TABLE account (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    email         TEXT NOT NULL COLLATE NOCASE UNIQUE,
    name          TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `version` counts every change of the venue, its menu or its staff; batches are conditional on it.
CREATE TABLE venue (
    id       INTEGER PRIMARY KEY,
    version  INTEGER NOT NULL,
    settings TEXT NOT NULL
) STRICT;

CREATE TABLE menu_item (
    venue_id INTEGER NOT NULL REFERENCES venue (id),
    id       INTEGER NOT NULL,
    name     TEXT NOT NULL,
    price    INTEGER NOT NULL CHECK (price >= 0),
    PRIMARY KEY (venue_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE staff (
    venue_id INTEGER NOT NULL REFERENCES venue (id),
    person   BLOB NOT NULL CHECK (length(person) = 16),
    PRIMARY KEY (venue_id, person)
) STRICT, WITHOUT ROWID;

-- Made when somebody first books it. The id is venue, day and minute; the version is the condition of every batch.
CREATE TABLE slot (
    id      INTEGER PRIMARY KEY,
    version INTEGER NOT NULL CHECK (version > 0)
) STRICT;

CREATE TABLE reservation (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    slot_id    INTEGER NOT NULL REFERENCES slot (id),
    person     BLOB NOT NULL CHECK (length(person) = 16),
    name       TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING',
                                               'REFUNDED', 'EXPIRED', 'CANCELED', 'COMPLETED', 'NO_SHOW')),
    party      INTEGER NOT NULL CHECK (party > 0),
    table_no   INTEGER,
    payment    TEXT NOT NULL CHECK (payment IN ('deposit', 'prepay')),
    items      TEXT,
    price      INTEGER NOT NULL CHECK (price >= 0),
    paid       INTEGER NOT NULL CHECK (paid >= 0),
    refunded   INTEGER NOT NULL CHECK (refunded BETWEEN 0 AND paid),
    refund_due INTEGER NOT NULL CHECK (refund_due BETWEEN 0 AND paid - refunded),
    expires_at INTEGER NOT NULL,
    note       TEXT,
    ticket     BLOB NOT NULL CHECK (length(ticket) = 16),
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    reseats    BLOB
) STRICT;

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
    slot_id     INTEGER NOT NULL REFERENCES slot (id),
    version     INTEGER NOT NULL,
    decided_at  INTEGER NOT NULL,
    guests_from INTEGER,
    guests_to   INTEGER,
    owners_from INTEGER,
    owners_to   INTEGER,
    decisions   TEXT NOT NULL,
    PRIMARY KEY (slot_id, version)
) STRICT;

CREATE INDEX decision_by_guest ON decision (slot_id, guests_to) WHERE guests_to IS NOT NULL;
CREATE INDEX decision_by_owner ON decision (slot_id, owners_to) WHERE owners_to IS NOT NULL;

-- What an Idempotency-Key was used for.
CREATE TABLE request_key (
    person BLOB NOT NULL,
    key    TEXT NOT NULL,
    body   BLOB NOT NULL,
    ticket BLOB NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (person, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_key_by_age ON request_key (at);

CREATE TABLE wallet (
    person  BLOB PRIMARY KEY CHECK (length(person) = 16),
    balance INTEGER NOT NULL CHECK (balance >= 0),
    version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every movement of money; the balance of a wallet is the sum of its entries.
CREATE TABLE wallet_entry (
    id          INTEGER PRIMARY KEY,
    person      BLOB NOT NULL REFERENCES wallet (person),
    amount      INTEGER NOT NULL,
    balance     INTEGER NOT NULL CHECK (balance >= 0),
    kind        TEXT NOT NULL CHECK (kind IN ('charge', 'payment', 'refund')),
    reservation BLOB,
    key         TEXT,
    at          INTEGER NOT NULL
) STRICT;

CREATE INDEX wallet_entry_by_person ON wallet_entry (person, id);
CREATE UNIQUE INDEX one_charge_a_key ON wallet_entry (person, key) WHERE key IS NOT NULL;
