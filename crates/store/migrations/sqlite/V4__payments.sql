-- Payments with providers: money that is not in a wallet. Begun, changed and ended in the lane of the reservation's slot, in
-- the same transaction as the reservation; only `REQUESTED`, with what the provider calls it, is written beside it.
CREATE TABLE payment (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    reservation  BLOB NOT NULL CHECK (length(reservation) = 16),
    person       BLOB NOT NULL CHECK (length(person) = 16),
    provider     TEXT NOT NULL,
    amount       INTEGER NOT NULL CHECK (amount >= 0),
    status       TEXT NOT NULL CHECK (status IN ('READY', 'REQUESTED', 'FAILED', 'CANCELLED', 'PAID')),
    reference    TEXT,
    checkout_url TEXT,
    deadline     INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    requested_at INTEGER,
    captured     INTEGER NOT NULL CHECK (captured >= 0),
    pays         BLOB CHECK (length(pays) = 16),
    version      INTEGER NOT NULL,
    -- When the sweep looks at it next, and how often it has.
    look_at      INTEGER NOT NULL,
    looks        INTEGER NOT NULL DEFAULT 0,
    CHECK (status = 'PAID' OR (captured = 0 AND pays IS NULL))
) STRICT, WITHOUT ROWID;

-- Nobody pays twice at the same time for one reservation, and none is paid twice.
CREATE UNIQUE INDEX one_open_payment ON payment (reservation) WHERE status IN ('READY', 'REQUESTED');
CREATE UNIQUE INDEX one_payment_a_reservation ON payment (pays) WHERE pays IS NOT NULL;
CREATE INDEX payment_by_reservation ON payment (reservation);
CREATE INDEX payment_by_person ON payment (person);
CREATE INDEX payment_to_look_at ON payment (look_at) WHERE status IN ('READY', 'REQUESTED');

-- Money on its way back through the provider.
CREATE TABLE refund (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    payment     BLOB NOT NULL REFERENCES payment (id),
    amount      INTEGER NOT NULL CHECK (amount > 0),
    status      TEXT NOT NULL CHECK (status IN ('DUE', 'RETURNED')),
    created_at  INTEGER NOT NULL,
    -- When the provider is asked next, and how often it was.
    ask_at      INTEGER NOT NULL,
    asked       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX refund_by_payment ON refund (payment);
CREATE INDEX refund_to_ask_for ON refund (ask_at) WHERE status = 'DUE';

-- Events of providers that were heard: each once, however often it is sent.
CREATE TABLE payment_event (
    provider TEXT NOT NULL,
    id       TEXT NOT NULL,
    payment  BLOB NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;
