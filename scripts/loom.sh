#!/bin/sh
# Checks the ring, credit and wake-ups in every interleaving, with loom, and that weakening any one
# of their orderings fails a test. Arguments go to the tests: `scripts/loom.sh --nocapture` prints
# which test notices which ordering.
set -eu
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=target/loom RUSTFLAGS="--cfg loom" \
    cargo test -p overtake --release --lib loom -- "$@"
