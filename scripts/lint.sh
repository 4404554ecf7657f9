#!/bin/sh
# Checks what needs no run: format, clippy and the documentation, warnings denied.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "lint.sh: $*" >&2; exit 1; }
command -v cargo >/dev/null ||
    fail "cargo is missing: install Rust 1.89 or newer (https://rustup.rs)"
cargo fmt --version >/dev/null 2>&1 || fail "rustfmt is missing: rustup component add rustfmt"
cargo clippy --version >/dev/null 2>&1 || fail "clippy is missing: rustup component add clippy"

cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
