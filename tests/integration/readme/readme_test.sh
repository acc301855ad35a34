#!/usr/bin/env bash
# Runs every line of README's five minutes as it stands there, against the real daemon, with a
# grpcurl that knows the API by reflection alone.
#
#   readme_test.sh BINARIES
#
# BINARIES stands in for build/release/bin. As root it runs, where it can, in a mount namespace with
# a /run of its own, so that no daemon of the machine's is met.
set -euo pipefail
cd "$(dirname "$0")/../../.."

binaries=$1
directory=$(mktemp -d /tmp/kvpool-readme.XXXXXX)
trap 'rm -rf "$directory"' EXIT

awk '/^## /  { inside = /^## Five minutes/ }
     /^```$/ { code = 0 }
     inside && code { print }
     /^```bash$/ { code = 1 }' README.md >"$directory/lines"
[ "$(wc -l <"$directory/lines")" -ge 30 ] || { echo "README's five minutes are gone" >&2; exit 1; }

{
  echo "set -euo pipefail"
  # A line that fails must not leave the daemon behind.
  echo 'trap "kill \$(jobs -p) 2>/dev/null || true" EXIT'
  sed "s#\$PWD/build/release/bin#$binaries#" "$directory/lines"
  echo "wait"
} >"$directory/script"

export XDG_RUNTIME_DIR=$directory
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  run=(unshare --mount bash -c 'mount -t tmpfs tmpfs /run && exec bash -x "$0"')
else
  # Not root, or in a chroot, whose root is no mount: no daemon of the machine's is met there.
  run=(bash -x)
fi
"${run[@]}" "$directory/script" 2>&1 | tee "$directory/output"

# Reflection knows health too, and the call that it tells of works.
grep -q 'rpc Check ( \.grpc\.health\.v1\.HealthCheckRequest )' "$directory/output"
grep -q '"status": "SERVING"' "$directory/output"
# What the lines promise: four blocks held, one after the hand-over, none at the end.
grep -q '"block_ids"' "$directory/output"
grep -q '"ref_count": 2' "$directory/output"
# And that the prompt was found.
grep -q '"matched_blocks": 1' "$directory/output"
