#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes each target for some seconds (300, or GPUMEMSHIM_FUZZ_SECONDS): tests/fuzz/run.sh [SECONDS], and adds their CPU time to the table of docs/fuzzing.md. Exit
# code 1 where an input crashes; the input is named.
set -euo pipefail
exec "$(cd "$(dirname "$0")/../.." && pwd)/scripts/fuzz_nightly" --each "${1:-${GPUMEMSHIM_FUZZ_SECONDS:-300}}"
