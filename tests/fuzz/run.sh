#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the trace reader with the replay, the recovery from rings, what names are read from, and what a sweep reads, a quarter of the time each: tests/fuzz/run.sh
# [SECONDS]. Exit code 1 where an input crashes; the input is named.
set -euo pipefail
seconds=${1:-60}
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/fuzz
cxx=$(command -v clang++ || command -v clang++-14) || { echo "clang++ is not installed: apt-get install clang-14" >&2; exit 3; }
cc=${cxx/clang++/clang}
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  -DGPUMEM_FUZZ=ON -DGPUMEM_BUILD_SIMCUDA=OFF -DGPUMEM_BUILD_SHIM=OFF -DGPUMEM_BUILD_BENCH=OFF \
  -DCMAKE_CXX_FLAGS="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined" >/dev/null
ninja -C "$build" -j"${GPUMEM_JOBS:-2}" reader_fuzz ring_fuzz sweep_fuzz symbols_fuzz make_corpus
cd "$build"
mkdir -p corpus corpus-rings corpus-symbols corpus-sweep
bin/make_corpus corpus corpus-rings corpus-symbols
quarter=$(((seconds + 3) / 4))
bin/reader_fuzz -max_total_time="$quarter" -max_len=65536 -timeout=25 -rss_limit_mb=3000 corpus
bin/ring_fuzz -max_total_time="$quarter" -max_len=90000 -timeout=25 -rss_limit_mb=3000 corpus-rings
printf '\0command: a {x}\naxes: {x: [1, 2], y: 1..8x2}\nconstraints: [x < y]\n' >corpus-sweep/spec
printf '\1(a + 2) * b <= 8 and not c.d == "x"' >corpus-sweep/constraint
bin/sweep_fuzz -max_total_time="$quarter" -max_len=8192 -timeout=25 -rss_limit_mb=3000 corpus-sweep
exec bin/symbols_fuzz -max_total_time="$quarter" -max_len=65536 -timeout=25 -rss_limit_mb=3000 corpus-symbols
