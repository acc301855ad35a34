#!/usr/bin/env bash
# Runs clang-tidy on a file unless the very same text has passed before: clang-tidy takes longer
# than compiling does, and most builds change few files.
#
#   tidy_once.sh CONFIG CLANG_TIDY [options] FILE -- COMPILER [arguments]
#
# What counts as the same: the preprocessed text with its comments (NOLINT is one), the checks in
# CONFIG, the options, and clang-tidy's version. Only a run without a finding is remembered.
set -euo pipefail

config=$1
shift
command=("$@")

compiler=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
  shift
done
[ "$#" -gt 1 ] || exec "${command[@]}"
shift
# The compiler's command without its output; -E and -CC come on top.
while [ "$#" -gt 0 ]; do
  case "$1" in
    -o | -MF | -MT | -MQ) shift ;;
    -c | -MD | -MMD) ;;
    *) compiler+=("$1") ;;
  esac
  shift
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvpool-tidy
key=$({
  "${compiler[@]}" -E -CC -P 2>/dev/null || date +%s%N
  cat "$config"
  "${command[0]}" --version
} | sha256sum | cut -d' ' -f1)
[ ! -e "$cache/$key" ] || exit 0

"${command[@]}"
mkdir -p "$cache"
touch "$cache/$key"
