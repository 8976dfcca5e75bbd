#!/usr/bin/env bash
# Times single operators with Google Benchmark, whose options it takes, e.g. ./dev bench micro --benchmark_filter=attention
# BURNISH_BENCH_THREADS sets the threads (all cores without it).
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/../build/bench_micro" "$@"
