#!/usr/bin/env bash
# Installs the wheel for aarch64 in a new Debian 13 of that architecture, where it trains a LoRA and draws with it, by qemu on another
# processor.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
source tests/packages/places.sh

((EUID == 0)) || { say "a new Debian needs root; the wheel was not tried"; exit 0; }
say "the wheel for aarch64, in a new Debian 13"
new_root trixie "$work/trixie" python3-venv arm64
try_wheel "$work/trixie" dist/burnish-*_aarch64.whl
say "it trains and draws"
