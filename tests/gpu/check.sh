#!/usr/bin/env bash
# Holds the driver of this machine's GPU to what the CUDA backend relies on, and asks it what only
# it can tell: ends with a table for RESULTS.md, and with the contract tests' exit code. A machine
# without a GPU fails.
#
#   tests/gpu/check.sh                  builds, and runs
#   tests/gpu/check.sh --build-only     builds into build/gpu
#   tests/gpu/check.sh --prebuilt DIR   runs what lies in DIR, a build/gpu or a copy of it
#
# Building takes CMake, Ninja, pkg-config, a C++20 compiler, abseil, Catch2 2, libcrypto and isa-l.
# Neither gRPC, Protobuf and spdlog nor a CUDA toolkit is needed. On a machine that lacks some of
# it, what was built elsewhere does, if its glibc is as new: DIR/tests/gpu is all that is needed of
# DIR, and is without its CMakeFiles small. abseil, Catch2, libstdc++ and libcrypto are in the
# programs; of what Debian has no static form of there is libisal, which is put beside them. The
# rest that ldd shows is glibc's.
#
# The tests take a minute, the questions at most three. To be asked all of them, be root, and have
# nvidia-cuda-mps-control.
set -euo pipefail

usage() {
  echo "usage: tests/gpu/check.sh [--build-only | --prebuilt DIR]" >&2
  exit 2
}

# Puts what the programs were linked with beside them, but for glibc.
carry_libraries() {
  local name path
  ldd "$1"/gpu_contract_test "$1"/gpu_questions "$1"/gpu_worker |
    sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u |
    while read -r name path; do
      case $name in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.*) ;;
        *) [ "$path" -ef "$1/$name" ] || cp -L "$path" "$1/$name" ;;
      esac
    done
}

build() {
  cd "$(dirname "$0")/../.."
  cmake --preset gpu >/dev/null
  cmake --build --preset gpu
  carry_libraries build/gpu/tests/gpu
}

case "$#:${1:-}" in
  0:) build; programs=$PWD/build/gpu/tests/gpu ;;
  1:--build-only) build; exit 0 ;;
  2:--prebuilt) programs=$2/tests/gpu ;;
  *) usage ;;
esac
for program in gpu_worker gpu_contract_test gpu_questions; do
  [ -x "$programs/$program" ] || {
    echo "check: there is no $programs/$program: see tests/gpu/check.sh --build-only" >&2
    exit 1
  }
done

# What points to another driver, or hides the devices, is not for this.
unset KVPOOL_LIBCUDA CUDA_VISIBLE_DEVICES

# Loads the driver and does nothing: says why where there is none.
"$programs/gpu_worker" </dev/null || exit 1

SECONDS=0
contract=0
timeout --kill-after=5 300 "$programs/gpu_contract_test" || contract=$?
echo "check: the contract tests ended with $contract after $SECONDS s"
echo
"$programs/gpu_questions" || echo "check: the questions ended with $?" >&2
echo
echo "check: $SECONDS s in all"
exit "$contract"
