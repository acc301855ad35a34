#!/usr/bin/env bash
# Makes kernels.ptx of kernels.cu, or checks that it is what would be made.
#
#   ptx.sh make NVCC    writes kernels.ptx
#   ptx.sh check NVCC   fails unless kernels.ptx is what NVCC makes; of another release than made
#                       it, the kernels and their parameters are compared and no more
#
# The text is PTX for the oldest architecture that is served (sm_75), and of the oldest version of
# the language that knows it (6.3), so that every driver since can compile it for its GPU.
set -euo pipefail
cd "$(dirname "$0")"

fail() {
  echo "ptx: $*" >&2
  exit 1
}

[ $# -eq 2 ] || fail "usage: ptx.sh make|check NVCC"
nvcc=$2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

release=$("$nvcc" --version | sed -n 's/.*, V\([0-9.]*\)$/\1/p')
"$nvcc" -ptx -arch=compute_75 -std=c++17 -I ../../.. -o "$scratch/raw.ptx" kernels.cu
{
  echo "// Made of kernels.cu by ptx.sh with nvcc $release. Do not edit."
  sed -e '/^\/\//d' -e 's/^\.version .*/.version 6.3/' "$scratch/raw.ptx" | sed '/./,$!d'
} >"$scratch/kernels.ptx"

ptxas=$(dirname "$nvcc")/ptxas
if [ -x "$ptxas" ]; then
  "$ptxas" -arch=sm_75 -o "$scratch/kernels.cubin" "$scratch/kernels.ptx"
fi

signatures() { grep -E '^\.visible \.entry|^[[:space:]]*\.param' "$1"; }

case $1 in
  make) cp "$scratch/kernels.ptx" kernels.ptx ;;
  check)
    if [ "$(head -n 1 kernels.ptx)" = "$(head -n 1 "$scratch/kernels.ptx")" ]; then
      diff -u kernels.ptx "$scratch/kernels.ptx" ||
        fail "kernels.ptx is not what kernels.cu gives: run core/device/cuda/ptx.sh make $nvcc"
    else
      diff <(signatures kernels.ptx) <(signatures "$scratch/kernels.ptx") ||
        fail "kernels.ptx has other kernels than kernels.cu"
    fi
    ;;
  *) fail "usage: ptx.sh make|check NVCC" ;;
esac
