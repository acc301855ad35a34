#!/usr/bin/env bash
# Holds the driver of this machine's GPU to what the CUDA backend relies on. A machine without a
# GPU fails.
#
#   tests/gpu/check.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

# What points to another driver, or hides the devices, is not for this.
unset KVPOOL_LIBCUDA CUDA_VISIBLE_DEVICES

cmake --preset release >/dev/null
cmake --build --preset release --target gpu_contract_test gpu_worker
exec build/release/tests/gpu/gpu_contract_test "$@"
