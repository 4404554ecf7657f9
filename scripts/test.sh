#!/bin/sh
# Runs all tests: of the crates, of what crosses them (the binaries `it` and `sim`), of the examples
# in the documentation, and the models of the concurrent parts. Installs what they need first, where
# it may.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "test.sh: $*" >&2; exit 1; }
command -v cargo >/dev/null ||
    fail "cargo is missing: install Rust 1.89 or newer (https://rustup.rs)"
# The allocator and zstd are C.
if ! command -v cc >/dev/null; then
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
        fail "a C compiler is missing: install one (Debian: apt-get install gcc libc6-dev)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y gcc libc6-dev
fi

cargo test --workspace
scripts/loom.sh
