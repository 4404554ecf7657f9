#!/bin/sh
# Runs jobs under a scheduler, a clock, a disk and deaths that are drawn from a seed, and compares
# them with what must come out.
#   scripts/simulate.sh --seeds N [--from S]    runs N seeds
#   scripts/simulate.sh --seed S                replays one, and prints all that happens
# Also: --records N, of each split; --fault NAME, planted in the engine.
set -eu
cd "$(dirname "$0")/.."
exec cargo run --quiet --profile test -p overtake-tests --bin simulate -- "$@"
