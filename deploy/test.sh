#!/usr/bin/env bash
# Sets up the machine and runs every test there is:
#
#   clang   clang-tidy and thread-safety analysis, by building with clang
#   dev     all tests, warnings are errors
#   asan    all tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan    unit, model and integration tests under ThreadSanitizer
#
# Some 30 minutes on two cores when nothing is built, 15 with a warm ccache. One step alone:
# `deploy/test.sh dev`. The last lines are ctest's own summary of the last step.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test

# Not for what a session before this one may have cached in its environment.
unset KVPOOL_SOCKET KVPOOL_KV_TRACE KVPOOL_KV_POISON

steps=("$@")
[ "${#steps[@]}" -gt 0 ] || steps=(clang dev asan tsan)

for step in "${steps[@]}"; do
  started=$SECONDS
  echo "test: $step"
  cmake --preset "$step" >/dev/null
  cmake --build --preset "$step"
  case "$step" in
    clang) ;;
    *) ctest --preset "$step" ;;
  esac
  echo "test: $step took $((SECONDS - started)) s" >&2
done
