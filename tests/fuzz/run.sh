#!/usr/bin/env bash
# Runs every fuzzer for so many seconds, one after the other, and says how each ended.
#
#   cmake --preset asan && cmake --build --preset asan
#   tests/fuzz/run.sh 600          # an hour for the six
#   tests/fuzz/run.sh 600 spec     # or only those
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:?usage: tests/fuzz/run.sh SECONDS [NAME...]}
shift
names=("$@")
[ "${#names[@]}" -gt 0 ] || names=(config fd_packet ledger requests spec trace)

build=build/asan
cmake --preset asan -DKVPOOL_FUZZ_SECONDS="$seconds" >/dev/null
trap 'cmake --preset asan -UKVPOOL_FUZZ_SECONDS >/dev/null' EXIT
failed=()
for name in "${names[@]}"; do
  log=$build/tests/fuzz/$name.log
  if ctest --preset asan --verbose --repeat until-fail:1 -R "^${name}_fuzzer finds" >"$log" 2>&1; then
    echo "$name: found nothing: $(grep -E 'DONE' "$log" | tail -1 | sed 's/.*#/#/')"
  else
    echo "$name: FOUND something, see $log"
    failed+=("$name")
  fi
done
[ "${#failed[@]}" -eq 0 ]
