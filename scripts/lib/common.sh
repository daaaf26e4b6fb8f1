# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# What every shell script here shares: where the repository is, how to speak, how to fail. Source it; it changes into the repository.
#   . "$(dirname "$(readlink -f "$0")")/lib/common.sh"

set -euo pipefail
readonly ROOT=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
readonly SCRIPT=scripts/$(basename "$0")
cd "$ROOT"

# Another clone of the same sources finds what this one compiled file by file (the recorder, the preset dev): paths below the repository count as relative, and
# the folder does not count. Units of ten sources have their paths in their text, so those are found in their own folder alone.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1
# And what was compiled with a precompiled header, which ccache leaves alone without this.
export CCACHE_SLOPPINESS=pch_defines,time_macros

# One line about what goes on.
say() { printf '%s\n' "$*"; }

# One line on stderr, then the end. The message names the next step.
die() {
  printf '%s: %s\n' "$SCRIPT" "$*" >&2
  exit 1
}

# stage NAME CMD...: runs CMD with its output kept in build/logs/NAME.log, prints one line with the time it took; on failure the end of the log.
stage() {
  local name=$1 log started=$SECONDS
  shift
  mkdir -p build/logs
  log=build/logs/$name.log
  printf '%-10s ' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf 'done in %d s\n' $((SECONDS - started))
  else
    printf 'FAILED after %d s; the end of %s:\n' $((SECONDS - started)) "$log"
    tail -n 40 "$log"
    return 1
  fi
}

# The usage text of a script is the comment block below its SPDX lines.
usage() { sed -n '4,/^[^#]/{/^#$/{s/.*//p;d};s/^# //p}' "$0" | sed '1{/^$/d}'; }
