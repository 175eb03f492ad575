#!/usr/bin/env bash
# Runs one scenario on every setup that this machine has and prints its table: criteria by setup.
#
#   scenarios/everywhere.sh [SCENARIO] [RUN-FLAG...]
#
# ISTER is the ister binary (default bin/ister, built by `make build`), RUNS the directory of the evidence, SETUPS the
# setups (default: all that can run here). For attach a cluster of three brokers is started and ended again. Exit code 1:
# a run did not pass, or two disagree.
set -euo pipefail
cd "$(dirname "$0")/.."

scenario=${1:-broker-scaling}
shift || true
ister=${ISTER:-bin/ister}
runs=${RUNS:-runs/everywhere-$(date -u +%Y%m%d-%H%M%S)}
setups=${SETUPS:-}
run() { "$ister" scenario --runs-dir "$runs" "$@"; }

if [ -z "$setups" ]; then
  offered=$("$ister" scenario show "$scenario" -o json | sed -n '/"setups"/,/\]/p' | grep -o '"[a-z]*"' | tr -d '"' | grep -v '^setups$')
  for setup in $offered; do
    if [ "$setup" = attach ] || "$ister" scenario doctor --setup "$setup" >/dev/null 2>&1; then
      setups="$setups $setup"
    else
      echo "left out: $setup, which this machine does not have (see: $ister scenario doctor --setup $setup)"
    fi
  done
fi

# Whatever happens, what was started is ended; the evidence stays.
finish() {
  status=$?
  trap - EXIT
  run stop attached-cluster >/dev/null 2>&1 || true
  run clean --all >/dev/null || status=5
  echo "evidence: $runs"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# attached starts the cluster that a run attaches to: one that the runner keeps after its first step.
attached() {
  run run broker-scaling --run-id attached-cluster --setup process --ister-bin "$ister" --until cluster --keep always --quiet --report json >/dev/null || [ $? -eq 3 ]
  admin=$(sed -n 's/^admin: //p' "$runs"/attached-cluster/brokers/*/config | paste -sd,)
}

status=0
ids=()
for setup in $setups; do
  flags=()
  if [ "$setup" = attach ]; then
    attached
    flags=(--admin "$admin" --broker-command setups/attach/example-brokers.sh)
  fi
  printf '\n== %s on %s\n' "$scenario" "$setup"
  run run "$scenario" --run-id "$scenario-$setup" --setup "$setup" --ister-bin "$ister" --quiet ${flags[@]+"${flags[@]}"} "$@" || status=1
  if [ "$setup" = attach ]; then
    run stop attached-cluster
  fi
  ids+=("$scenario-$setup")
done
echo
run table "${ids[@]}" || status=1
exit "$status"
