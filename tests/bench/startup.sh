#!/usr/bin/env bash
# What starting and calling costs, beside bubblewrap and beside nothing at all, in one interleaved run:
#   tests/bench/startup.sh [RUNS]        default 60; STOCKADE=BINARY measures another binary
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=${STOCKADE:-$(cd "$here/../.." && pwd)/target/release/stockade}
[ -x "$bin" ] || { echo "no binary at $bin: cargo build --release"; exit 1; }
for program in gcc bwrap python3; do
    command -v "$program" >/dev/null || { echo "this needs $program"; exit 1; }
done
place=$(mktemp -d /tmp/stockade-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/work/many" "$place/home"
gcc -O2 -Wall -Werror -o "$place/floor" "$here/floor.c"
head -c 4096 /dev/zero | tr '\0' 'a' | fold -w 63 >"$place/work/four.txt"
runs=${1:-60}
for ((i = 0; i < 2 * runs + 40; i++)); do cp "$place/work/four.txt" "$place/work/many/$i.txt"; done
cat >"$place/policy.toml" <<'TOML'
version = 1
extends = "default"
mode = "open"

[network]
mode = "none"

[[deny_path]]
pattern = "**/.env"
reason = "secrets"
TOML
python3 "$here/measure.py" "$bin" "$place/floor" "$place" "$runs"
