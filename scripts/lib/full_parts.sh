# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# The parts of `scripts/test --full`, each at most an hour on two cores (docs/testing.md has the times). Source it after common.sh. A part is a
# function that calls `suite` and `check`, both from scripts/test; a long test that no pattern names is run by `others`, so none is left out.

readonly PARTS=(everyday recorder analyzer plans replays wheels packages twice others asan tsan odr fuzz checks tidy_1 tidy_2)

# What is in a part, for people: about NAME.
about() {
  case $1 in
    everyday) echo "what scripts/test runs" ;;
    recorder) echo "long tests of the recorder: kills, attaching, allocators, the ring's model, stacks" ;;
    analyzer) echo "long tests of what reads traces: bombs, imports, exports, pages, ranks" ;;
    plans) echo "long tests of plan, and of simulated CUDA held against GPUs" ;;
    replays) echo "long tests of sweep, bisect, replay, ranks and engines" ;;
    wheels) echo "other versions of PyTorch: fetches 10 GB, 2 GB at a time" ;;
    packages) echo "our packages on older systems, recipes, launchers of clusters, dashboards, training libraries, integrations: fetches 3 GB" ;;
    twice) echo "the source distribution compiled elsewhere: equal byte by byte" ;;
    others) echo "the other long tests: every command on hostile traces, PyTorch's and CPython's own tests" ;;
    asan) echo "all but end to end, and every command on hostile traces, under the address and undefined-behaviour sanitizers" ;;
    tsan) echo "recorder, and the analyzer where it has threads, under the thread sanitizer" ;;
    odr) echo "the program linked as one (-flto): no name with two types" ;;
    fuzz) echo "each fuzz target for ${GPUMEMSHIM_FUZZ_SECONDS:-300} seconds" ;;
    checks) echo "scripts/check, and that each check can fail" ;;
    tidy_1) echo "clang-tidy over one half of the files" ;;
    tidy_2) echo "clang-tidy over the other half" ;;
  esac
}

# Long tests of the release, by name.
readonly OF_RECORDER='^(torture|hosts|shim_|ring_model|attach|oom|memory|devices)'
readonly OF_ANALYZER='^(Commands/|consistency|import|leaks|trees|export_readers|diff|ranks_command|flame|guides|docs_site)'
readonly OF_PLANS='^(plan|real_gpu)'
readonly OF_REPLAYS='^(sweep|bisect|replay|ranks_full|engines)'
readonly OF_WHEELS='^wheels'
readonly OF_TWICE='^packaging_twice'
readonly OF_PACKAGES='^(packaging|libraries|integrations|dashboards|clusters)'

# suite NAME PRESET OPTION... builds the preset and runs tests of it; long NAME OPTION... runs long tests of the release.
long() { suite "$1" release -L '^full$' "${@:2}"; }

part_everyday() { suite everyday release -LE '^full$'; }
part_recorder() { long recorder -R "$OF_RECORDER"; }
part_analyzer() { long analyzer -R "$OF_ANALYZER"; }
part_plans() { long plans -R "$OF_PLANS"; }
part_replays() { long replays -R "$OF_REPLAYS"; }
part_wheels() { long wheels -R "$OF_WHEELS"; }
part_packages() { long packages -R "$OF_PACKAGES" -E "$OF_TWICE"; }
part_twice() { long twice -R "$OF_TWICE"; }
part_others() { long others -E "$OF_RECORDER|$OF_ANALYZER|$OF_PLANS|$OF_REPLAYS|$OF_WHEELS|$OF_TWICE|$OF_PACKAGES"; }
part_asan() { suite asan asan; }
part_tsan() { suite tsan tsan; }
part_odr() { check odr scripts/build odr gpumemshim; }
part_fuzz() { check fuzz bash tests/fuzz/run.sh "${GPUMEMSHIM_FUZZ_SECONDS:-300}"; }
part_checks() { build release && check check scripts/check && check check_checks scripts/check_checks; }
part_tidy_1() { build release && check tidy_1 scripts/check_tidy --full --share 1/2; }
part_tidy_2() { build release && check tidy_2 scripts/check_tidy --full --share 2/2; }
