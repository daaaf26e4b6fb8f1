# SPDX-License-Identifier: Apache-2.0
# One INTERFACE target carries every warning flag; link it PRIVATE.
option(GPUMEM_WERROR "Treat warnings as errors" OFF)

add_library(gpumem_warnings INTERFACE)
add_library(gpumem::warnings ALIAS gpumem_warnings)
target_compile_options(gpumem_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<BOOL:${GPUMEM_WERROR}>:-Werror>)
