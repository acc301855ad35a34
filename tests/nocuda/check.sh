#!/usr/bin/env bash
# Holds programs that were built without the CUDA backend to what they still do: pools on the host,
# and a refusal that says what is missing for others.
#
#   tests/nocuda/check.sh DIR    where kvpoold and kvpoolctl are
set -euo pipefail
programs=$(cd "$1" && pwd)
directory=$(mktemp -d)
daemon=
finish() {
  [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
  rm -rf "$directory"
}
trap finish EXIT

fail() {
  echo "check: $1" >&2
  exit 1
}

ctl() { "$programs/kvpoolctl" --socket="unix:$directory/operator.sock" "$@"; }

cat >"$directory/config.json" <<CONFIG
{"listeners": [{"address": "unix:$directory/operator.sock", "role": "ROLE_OPERATOR"}]}
CONFIG
"$programs/kvpoold" --config="$directory/config.json" 2>"$directory/log" &
daemon=$!
for _ in $(seq 200); do
  ctl health >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || fail "the daemon does not start: $(cat "$directory/log")"
  sleep 0.05
done

spec='"num_layers": 2, "num_kv_heads": 2, "head_dim": 16, "dtype": "bf16", "num_blocks": 8'
ctl create-pool --spec="{\"name\": \"host\", $spec}" || fail "no pool on the host"
said=$(ctl create-pool --spec="{\"name\": \"gpu\", $spec, \"devices\": [\"cuda:0\"]}" 2>&1) &&
  fail "a pool on a GPU was made"
[[ $said == *KVPOOL_CUDA=OFF* ]] || fail "the refusal does not say what is missing: $said"
ctl doctor || fail "doctor finds faults"

kill "$daemon"
wait "$daemon" || fail "the daemon does not end in order: $(cat "$directory/log")"
daemon=
