#!/usr/bin/env bash
# Sets up the machine and runs every test there is:
#
#   dev     all tests, warnings are errors
#   gpu     core and the tests of a GPU alone, as tests/gpu/check.sh builds them, are built
#   nocuda  without the CUDA backend: built, and tried (tests/nocuda/check.sh)
#   clang   clang-tidy and thread-safety analysis, on all but the tests
#   tsan    all tests under ThreadSanitizer (docs/decisions/sanitizers.md), by clang
#   asan    all tests under AddressSanitizer and UndefinedBehaviorSanitizer, by clang, and a minute
#           of each fuzzer (tests/fuzz)
#
# A test that fails is run once more: workers that are killed at random on a loaded machine can be
# late without being wrong. The log shows both runs. But a sanitizer's report in either fails the
# step: a race that shows once is a race.
#
# One step alone: `deploy/test.sh dev`. The last lines are ctest's own summary of the last step.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/setup.sh test

# What the caller's environment says is not for the tests.
unset KVPOOL_SOCKET KVPOOL_KV_TRACE KVPOOL_KV_POISON

steps=("$@")
[ "${#steps[@]}" -gt 0 ] || steps=(dev gpu nocuda clang tsan asan)

for step in "${steps[@]}"; do
  echo "test: $step"
  cmake --preset "$step" >/dev/null
  cmake --build --preset "$step"
  case "$step" in
    clang | gpu) ;;
    nocuda) tests/nocuda/check.sh build/nocuda/bin ;;
    *)
      ctest --preset "$step"
      if grep -E 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|ERROR: libFuzzer|runtime error:' \
        "build/$step/Testing/Temporary/LastTest.log"; then
        echo "test: $step: a sanitizer reported something in a test that passed when run again" >&2
        exit 1
      fi
      ;;
  esac
done
