-- Payments with providers: money that is not in a wallet. Begun, changed and ended in the lane of the reservation's slot, in
-- the same transaction as the reservation; only `REQUESTED`, with what the provider calls it, is written beside it.
CREATE TABLE payment (
    id           uuid PRIMARY KEY,
    reservation  uuid NOT NULL,
    person       uuid NOT NULL,
    provider     text NOT NULL,
    amount       bigint NOT NULL CHECK (amount >= 0),
    status       text NOT NULL CHECK (status IN ('READY', 'REQUESTED', 'FAILED', 'CANCELLED', 'PAID')),
    reference    text,
    checkout_url text,
    deadline     bigint NOT NULL,
    created_at   bigint NOT NULL,
    requested_at bigint,
    captured     bigint NOT NULL CHECK (captured >= 0),
    pays         uuid,
    version      bigint NOT NULL,
    -- When the sweep looks at it next, and how often it has.
    look_at      bigint NOT NULL,
    looks        bigint NOT NULL DEFAULT 0,
    CHECK (status = 'PAID' OR (captured = 0 AND pays IS NULL))
);

-- Nobody pays twice at the same time for one reservation, and none is paid twice.
CREATE UNIQUE INDEX one_open_payment ON payment (reservation) WHERE status IN ('READY', 'REQUESTED');
CREATE UNIQUE INDEX one_payment_a_reservation ON payment (pays) WHERE pays IS NOT NULL;
CREATE INDEX payment_by_reservation ON payment (reservation);
CREATE INDEX payment_by_person ON payment (person);
CREATE INDEX payment_to_look_at ON payment (look_at) WHERE status IN ('READY', 'REQUESTED');

-- Money on its way back through the provider.
CREATE TABLE refund (
    id          uuid PRIMARY KEY,
    payment     uuid NOT NULL REFERENCES payment (id),
    amount      bigint NOT NULL CHECK (amount > 0),
    status      text NOT NULL CHECK (status IN ('DUE', 'RETURNED')),
    created_at  bigint NOT NULL,
    -- When the provider is asked next, and how often it was.
    ask_at      bigint NOT NULL,
    asked       bigint NOT NULL DEFAULT 0
);

CREATE INDEX refund_by_payment ON refund (payment);
CREATE INDEX refund_to_ask_for ON refund (ask_at) WHERE status = 'DUE';

-- Events of providers that were heard: each once, however often it is sent.
CREATE TABLE payment_event (
    provider text NOT NULL,
    id       text NOT NULL,
    payment  uuid NOT NULL,
    at       bigint NOT NULL,
    CONSTRAINT one_event_an_id PRIMARY KEY (provider, id)
);
