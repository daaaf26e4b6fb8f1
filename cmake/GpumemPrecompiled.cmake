# SPDX-License-Identifier: Apache-2.0
# gpumem_precompile(TARGET...): what nearly every file of the analyzer and the planner includes is parsed once instead of in each of them, which is
# most of what compiling them takes. A file still includes what it uses: the sanitizers' builds have no precompiled header, nor has check_headers.
# GPUMEM_PRECOMPILE=OFF, or CMAKE_DISABLE_PRECOMPILE_HEADERS, builds without.
option(GPUMEM_PRECOMPILE "Precompile common headers of the analyzer and its tests" ON)

set(gpumem_common_headers
  <algorithm> <cstdint> <cstring> <functional> <map> <memory> <optional> <string> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/status/statusor.h> <absl/strings/match.h> <absl/strings/numbers.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h> <gpumem/trace.pb.h>)

# ccache finds a result again only where the compiler says what it takes out of the precompiled header. GCC 12 forgets that std::string there is
# a system's, and warns of what it wrongly believes of it (its bugs 105329 and 105651).
set(gpumem_precompiled_options -fpch-preprocess -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
  -Wno-stringop-overread)
function(gpumem_use_precompiled header)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${header})
    target_compile_options(${target} PRIVATE ${gpumem_precompiled_options})
  endforeach()
endfunction()

function(gpumem_precompile)
  if(NOT GPUMEM_PRECOMPILE OR GPUMEM_SANITIZER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  if(NOT TARGET gpumem_precompiled)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "// Nothing: its header is what counts.\n")
    add_library(gpumem_precompiled STATIC ${PROJECT_BINARY_DIR}/precompiled.cc)
    target_link_libraries(gpumem_precompiled PRIVATE gpumem::proto gpumem::warnings)
    target_compile_options(gpumem_precompiled PRIVATE ${gpumem_precompiled_options})
    target_precompile_headers(gpumem_precompiled PRIVATE ${gpumem_common_headers})
    set_target_properties(gpumem_precompiled PROPERTIES
      CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/compile_anew.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  gpumem_use_precompiled(gpumem_precompiled ${ARGN})
endfunction()
