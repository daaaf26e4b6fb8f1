# SPDX-License-Identifier: Apache-2.0
# gpumem is one file to copy anywhere: abseil and protobuf come in as archives, not as libraries that another machine lacks in this version.
# Debian's packages hold both, and their CMake files name the shared ones; this names the archives instead, for the calling folder only.
function(gpumem_use_static_imports)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^(absl|protobuf)::")
      continue()
    endif()
    foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION_NOCONFIG)
      get_target_property(location ${target} ${property})
      string(REGEX REPLACE "\\.so(\\.[0-9.]+)?$" ".a" archive "${location}")
      if(location AND EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES ${property} "${archive}")
      endif()
    endforeach()
  endforeach()
endfunction()
