# Two commands matter: `make run` and `make test`. `make cluster` is the first, three times over.

CARGO ?= cargo
# Debian packages that the checks need, each with the program that shows it is there: by name, or by where it lies.
NEEDS := cc:build-essential redis-server:redis-server /usr/lib/postgresql/*/bin/postgres:postgresql \
         chromium:chromium /usr/share/fonts/truetype/nanum/*.ttf:fonts-nanum
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))

.PHONY: run cluster build web web-test test soak needs needs-sqlite3 needs-java format lint docs check faults simulate bench bench-embedded bench-drivers \
        bench-locks bench-cluster bench-concerts bench-postgres clean

run: build
	$(TARGET)/release/maitred serve --demo

# Three servers that share PostgreSQL and Redis, to try things with.
cluster: needs build
	@./scripts/cluster "$(TARGET)/release/maitred"

build: web
	$(CARGO) build --release --locked -p maitred

# The web app, which the next build of the server takes in. Brings its own Node where there is none.
web:
	@./scripts/web $(TARGET)/node build

# The web app: its types, its units, and its pages in a browser against the server.
web-test: needs web
	$(CARGO) build --locked -p maitred
	MAITRED=$(TARGET)/debug/maitred ./scripts/web $(TARGET)/node check unit browser

# Everything that CI runs.
test: needs web format lint docs check web-test simulate

# Installs what is missing, or names it where that is not allowed.
needs:
	@./.ci/needs $(foreach need,$(NEEDS),'$(need)')

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items --lib

# The server's tests load the machine and judge what happens then: one at a time.
check:
	$(CARGO) test --locked --workspace --exclude bench --exclude maitred --all-features
	$(CARGO) test --locked -p maitred --all-features -- --test-threads 1

# Real faults again and again, one test at a time: make faults CYCLES=1000. docs/failures.md says which test shows what.
CYCLES ?= 30
FAULTS := shared:: crash:: power:: files:: trouble::
faults: needs
	MAITRED_FAULT_CYCLES=$(CYCLES) $(CARGO) test --locked -p maitred --all-features --test server -- \
		--test-threads 1 --nocapture $(FAULTS)

# Worlds in which everything goes wrong, and proof that they would find a fault if there were one.
simulate:
	$(CARGO) run --release --locked -p simulation -- --seeds 1000
	$(CARGO) run --release --locked -p simulation -- --seeds 1000 --bugs

# The same for an hour or so.
soak:
	$(CARGO) run --release --locked -p simulation -- --seeds 50000

# Measurements: not part of the checks, because a busy machine would fail them.
# The race: maitred beside what people use today. Takes 25 minutes of an idle machine; make bench RACE="--only hot --rounds 1"
# runs a part of it.
bench: needs needs-java build
	$(CARGO) run --release --locked -p bench --bin race -- $(RACE)

bench-embedded:
	$(CARGO) run --release --locked -p bench --bin embedded

bench-drivers: needs-sqlite3
	$(CARGO) run --release --locked -p bench --bin drivers

# fairlane beside Redis itself, and beside Redisson.
bench-locks: needs needs-java
	$(CARGO) run --release --locked -p bench --bin locks
	$(CARGO) run --release --locked -p bench --bin redisson

bench-cluster: needs
	$(CARGO) run --release --locked -p bench --bin cluster

bench-concerts: needs
	$(CARGO) run --release --locked -p bench --bin concerts

needs-sqlite3:
	@./.ci/needs sqlite3:sqlite3

# The peers in Java: only measurements need them.
needs-java:
	@./.ci/needs mvn:maven javac:default-jdk-headless

# The server is yours: make bench-postgres URL=postgres://USER@HOST:PORT
bench-postgres:
	$(CARGO) run --release --locked -p bench --bin postgres -- $(URL)

clean:
	$(CARGO) clean
