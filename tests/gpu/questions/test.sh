#!/usr/bin/env bash
# Runs gpu_questions on the fake driver and holds its answers to that driver's rules.
#
#   test.sh GPU_QUESTIONS FAKE_DRIVER
set -euo pipefail
questions=$1

fail() {
  echo "test: $*" >&2
  exit 1
}

# Where other users find it, too.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
mkdir -m 1777 "$scratch/memory"
cp -L "$2" "$scratch/libcuda.so.1"
unset CUDA_VISIBLE_DEVICES
export KVPOOL_LIBCUDA=$scratch/libcuda.so.1 FAKECUDA_DIR=$scratch/memory

"$questions" 60 | tee "$scratch/table"

# The row of a question that cannot be asked here, or has each of these pieces in its answer.
expect() {
  local number=$1 row piece
  shift
  row=$(grep "^| $number |" "$scratch/table") || fail "question $number has no row"
  case $row in
    *"no answer in"* | *"the asker ended with"* | *"nothing was said"*) fail "no answer: $row" ;;
    *"| not asked: "*) return ;;
  esac
  for piece in "$@"; do
    case $row in
      *"$piece"*) ;;
      *) fail "expected '$piece' in: $row" ;;
    esac
  done
}
# The same of one that can be asked everywhere.
expect_asked() {
  ! grep "^| $1 |.*| not asked: " "$scratch/table" || fail "question $1 was not asked"
  expect "$@"
}

expect 1 "open: 0, and what was written is read"
expect 2 "open: 201 CUDA_ERROR_INVALID_CONTEXT"
expect 3 "uid 0 to 65534: open: 400" "uid 65533 to 65534: open: 400"
expect_asked 4 "an importer reads on" "a new open: 400" "(0) frees 64 MiB of 64" \
  "an open after it: 400"
expect_asked 5 "freed while another has it: 0" "its handle then 400" \
  "new memory has another handle" "2 the new) 1;" "that has it opens and reads 1" \
  "the new one there opens and reads 2" "in another process 400"
expect_asked 6 "second open: 0, the same address" "after one close (0) it is read still" \
  "close without a context: 201" "the second close: 0" "a third: 1 " \
  "the driver has no cuCtxCreate_v2"
expect_asked 9 "by a kernel" "by a loop of memsets (0)" "by one cuMemsetD2D8Async (0)"
expect_asked 10 "to the device: 8 KiB " ", 2 MiB "
expect_asked 13 "takes 0 MiB"
# Those that the fake driver has not the calls, or the machine the programs for.
for number in 7 8 11 12 14; do expect "$number"; done
[ "$(grep -c '^| [0-9]' "$scratch/table")" -eq 14 ] || fail "there are not 14 rows"

# A question that hangs has a row that says so.
FAKECUDA_DELAY_US=600000000 "$questions" 10 4 | tee "$scratch/late"
grep -q '^| 4 |.*| no answer in 10 s |$' "$scratch/late" || fail "what hangs is not said to"

# Without a driver: one line, and a failure.
code=0
KVPOOL_LIBCUDA=/nonexistent/libcuda.so.1 "$questions" >"$scratch/out" 2>"$scratch/error" || code=$?
[ "$code" -eq 1 ] || fail "exit code $code without a driver"
[ ! -s "$scratch/out" ] || fail "without a driver: $(cat "$scratch/out")"
[ "$(wc -l <"$scratch/error")" -eq 1 ] || fail "not one line: $(cat "$scratch/error")"
grep -q 'there is no CUDA driver here' "$scratch/error" || fail "$(cat "$scratch/error")"

# What is no argument of check.sh's, or no place of what it built.
check=$(dirname "$0")/../check.sh
for arguments in --nonsense "--prebuilt" "--build-only more"; do
  code=0
  # shellcheck disable=SC2086
  "$check" $arguments 2>/dev/null || code=$?
  [ "$code" -eq 2 ] || fail "check.sh $arguments ends with $code"
done
code=0
"$check" --prebuilt "$scratch" 2>"$scratch/error" || code=$?
[ "$code" -eq 1 ] || fail "check.sh --prebuilt of an empty folder ends with $code"
grep -q "there is no $scratch/tests/gpu/gpu_worker" "$scratch/error" ||
  fail "$(cat "$scratch/error")"
