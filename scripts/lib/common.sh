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
  STAGE_STEPS=$ROOT/build/logs/$name.steps
  rm -f "$STAGE_STEPS"
  STAGE_STEPS=$STAGE_STEPS "$@" >"$log" 2>&1 </dev/null &
  watch "$name" "$log" $!
  if wait $!; then
    printf '%-10s done in %d s\n' "$name" $((SECONDS - started))
  else
    printf '%-10s FAILED after %d s; the end of %s:\n' "$name" $((SECONDS - started)) "$log"
    tail -n 40 "$log"
    return 1
  fi
}

# weigh FILE DONE: how much of ninja's steps is done and how much there is, by the seconds that steps of their kind take: ten sources of the analyzer 7, of the tests 4.
weigh() {
  awk -v done="$2" 'function weight(line) { return line !~ /Building/ ? 1 : line !~ /Unity/ ? 3 : line ~ /object (analyzer|planner)/ ? 66 : line ~ /object tests/ ? 35 : 16 }
    { all += weight($0); if (NR <= done) part += weight($0) } END { print part + 0, all + 0 }' "$1"
}

# "412/600, about 2 min left", of a log that counts as ninja does, after so many seconds; else the seconds.
progress() {
  local log=$1 passed=$2 counted done all left part whole
  counted=$(tail -c 4000 "$log" 2>/dev/null | sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 \2/p' | tail -n 1)
  read -r done all <<<"${counted:-0 0}"
  if [ "$done" = 0 ]; then printf '%d s' "$passed"; return; fi
  part=$done whole=$all
  if [ -s "${STAGE_STEPS:-}" ]; then read -r part whole < <(weigh "$STAGE_STEPS" "$done"); fi
  left=$((passed * (whole - part) / (part > 0 ? part : 1)))
  if [ "$passed" -lt 10 ] || [ "$done" = "$all" ]; then printf '%d/%d' "$done" "$all"
  elif [ $left -ge 90 ]; then printf '%d/%d, about %d min left' "$done" "$all" $(((left + 30) / 60))
  else printf '%d/%d, about %d s left' "$done" "$all" $left; fi
}

# watch NAME LOG PID: says how far a process has come until it is over: each second on a terminal, else each minute.
watch() {
  local name=$1 log=$2 pid=$3 started=$SECONDS said=0 passed rest=0.01
  while kill -0 "$pid" 2>/dev/null; do
    sleep $rest
    rest=0.$((${rest#0.} < 10 ? 10 : 50))
    passed=$((SECONDS - started))
    if [ -t 1 ]; then
      [ $passed = $said ] || printf '\r%-10s %s\033[K' "$name" "$(progress "$log" $passed)"
      said=$passed
    elif [ $((passed - said)) -ge 60 ]; then
      printf '%-10s %s\n' "$name" "$(progress "$log" $passed)"
      said=$passed
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
}

# The usage text of a script is the comment block below its SPDX lines.
usage() { sed -n '4,/^[^#]/{/^#$/{s/.*//p;d};s/^# //p}' "$0" | sed '1{/^$/d}'; }
