#!/usr/bin/env bash
# Builds kvpool and shows its main job, with real processes: a prefill worker computes the KV of a
# text, a decode worker uses it in place, a third is killed while it writes.
#
#   deploy/demo.sh [DEVICE]    on host memory, or on a GPU such as cuda:0: its workers, which have
#                              no kernels, then copy to the host what they compute with
#
# Installs what the build needs first (deploy/setup.sh build). Takes under a minute once built.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh build

echo "demo: building into build/release"
cmake --preset release -DKVPOOL_BUILD_TESTS=OFF >/dev/null
cmake --build --preset release --target kvpoold kvpoolctl kvpool_demo

directory=$(mktemp -d /tmp/kvpool-demo.XXXXXX)
worker=unix:$directory/worker/kvpool.sock
operator=unix:$directory/operator/kvpool.sock
daemon=
finish() {
  if [ -n "$daemon" ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" || true
  fi
  rm -rf "$directory"
}
trap finish EXIT

# Llama-3.1-8B: 32 layers, 8 KV heads of 128, bf16; 2 MiB a block of 16 tokens.
cat >"$directory/config.json" <<CONFIG
{
  "pools": [
    {"name": "llama", "num_layers": 32, "num_kv_heads": 8, "head_dim": 128, "dtype": "bf16",
     "num_blocks": 128, "devices": ["${1:-host}"]}
  ],
  "listeners": [
    {"address": "$worker", "role": "ROLE_WORKER"},
    {"address": "$operator", "role": "ROLE_OPERATOR"}
  ]
}
CONFIG

echo "demo: starting kvpoold with a pool of Llama-3.1-8B's geometry"
build/release/bin/kvpoold --config="$directory/config.json" 2>"$directory/log" &
daemon=$!
for _ in $(seq 200); do
  build/release/bin/kvpoolctl --socket="$operator" health >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
  sleep 0.05
done

# The prompt: a real text, the first 1,024 bytes of the licence; a token a byte.
build/release/bin/kvpool_demo run --socket="$worker" --pool=llama \
  --text="$(tr -s ' \n' ' ' <LICENSE | head -c 1024)"
