#!/usr/bin/env bash
# Produces 10,000 records with kcat through each of three brokers, with each
# compression codec, reads them back through another broker and compares.
# Usage: roundtrip.sh PATH-TO-ISTER. Starts its own brokers and stops them.
set -euo pipefail
ister=$(realpath "$1")
command -v kcat >/dev/null || { echo "kcat is not installed: apt-get install kcat" >&2; exit 4; }
work=$(mktemp -d)
pids=()
cleanup() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  for p in "${pids[@]}"; do wait "$p" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT

# Ports that are free now, nine in a row of their own.
base=$((20000 + RANDOM % 20000))
port() { echo $((base + $1)); } # port OFFSET
seeds=127.0.0.1:$(port 6),127.0.0.1:$(port 7),127.0.0.1:$(port 8)
for i in 0 1 2; do
  "$ister" broker --data-dir "$work/b$i" --broker-addr "127.0.0.1:$(port $i)" --admin-addr "127.0.0.1:$(port $((3 + i)))" \
    --raft-addr "127.0.0.1:$(port $((6 + i)))" --prom-exporter "" --seed-nodes "$seeds" >"$work/b$i.log" 2>&1 &
  pids+=($!)
done
export ISTER_ADMIN_ENDPOINT=http://127.0.0.1:$(port 3)
for i in 0 1 2; do
  deadline=$((SECONDS + 60))
  until curl -fsS "http://127.0.0.1:$(port $((3 + i)))/readyz" >/dev/null 2>&1; do
    if ((SECONDS > deadline)); then
      echo "broker $i was not ready within 60 s:" >&2
      tail -20 "$work/b$i.log" >&2
      exit 1
    fi
    read -rt 0.2 <> <(:) || true
  done
done

awk 'BEGIN { for (i = 1; i <= 10000; i++) printf "key-%d:value-%012d\n", i, i }' >"$work/sent"
n=0
for codec in none gzip snappy lz4 zstd; do
  "$ister" admin topics create "/default/kcat-$codec" --partitions 1 >/dev/null
  to=127.0.0.1:$(port $((n % 3)))
  from=127.0.0.1:$(port $(((n + 1) % 3)))
  n=$((n + 1))
  kcat -q -P -b "$to" -t "kcat-$codec" -p 0 -K : -z "$codec" -X acks=all -X message.timeout.ms=30000 -l "$work/sent"
  kcat -q -C -b "$from" -t "kcat-$codec" -p 0 -o beginning -e -K : >"$work/got"
  if ! cmp -s "$work/sent" "$work/got"; then
    echo "kcat $codec: what was read differs from what was sent ($(wc -l <"$work/got") of 10000 lines)" >&2
    exit 1
  fi
  echo "kcat $codec: 10000 records through $to, read back through $from, identical"
done
