#!/bin/sh
# Builds the simulator with each planted bug and demands that it is caught.
# SEEDS bounds how many seeds may be needed.
set -u
cd "$(dirname "$0")" || exit 2
seeds=${SEEDS:-200}
program=$(mktemp) || exit 2
trap 'rm -f "$program"' EXIT
missed=0
for tag in plant_ack_early plant_hw_below_min_isr plant_remove_early plant_stale_epoch_ack; do
	printf '%-24s ' "$tag"
	go build -tags "$tag" -o "$program" ./cmd || exit 2
	"$program" -expect-failure -seeds "$seeds" || missed=1
done
exit $missed
