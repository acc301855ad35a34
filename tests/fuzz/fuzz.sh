#!/usr/bin/env bash
# Runs one fuzzer from its corpus, for so many seconds; 0: each input of the corpus once.
#
#   fuzz.sh FUZZER CORPUS WORK SECONDS [libFuzzer's arguments...]
#
# What is new to it goes to WORK/new, an input that it fails on to WORK/findings, and as base64 to
# the output. A finding is tried again first, and so fails every run, until it is taken away.
set -euo pipefail

fuzzer=$1 corpus=$2 work=$3 seconds=$4
shift 4
mkdir -p "$work/new" "$work/findings"

if [ "$seconds" -eq 0 ]; then
  limits=(-runs=0)
  directories=("$corpus")
else
  limits=(-max_total_time="$seconds")
  directories=("$work/new" "$corpus" "$work/findings")
fi
if "$fuzzer" "${limits[@]}" -timeout=60 -print_final_stats=1 "$@" \
  -artifact_prefix="$work/findings/" "${directories[@]}"; then
  exit 0
fi

for finding in "$work"/findings/*; do
  [ -e "$finding" ] || continue
  echo "fuzz: $finding"
  base64 "$finding"
done
exit 1
