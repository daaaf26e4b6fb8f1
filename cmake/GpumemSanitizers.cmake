# SPDX-License-Identifier: Apache-2.0
# A sanitizer is chosen for the whole build tree: -DGPUMEM_SANITIZER=address|thread|undefined|address,undefined.
set(GPUMEM_SANITIZER "" CACHE STRING "address, thread, undefined, both of address,undefined, or empty for none")
if(GPUMEM_SANITIZER)
  add_compile_options(-fsanitize=${GPUMEM_SANITIZER} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The instrumentation hides from gcc's flow analysis what initialises an optional: it warns of good code (gcc's manual, -fsanitize=address).
  add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overread -Wno-stringop-overflow -Wno-restrict)
  # The ring has one fence, which gcc's thread sanitizer does not know and warns of; what it orders is for a reader after the process's death.
  if(GPUMEM_SANITIZER STREQUAL thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)
  endif()
  add_link_options(-fsanitize=${GPUMEM_SANITIZER})
endif()
