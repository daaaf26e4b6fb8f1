# SPDX-License-Identifier: Apache-2.0
# gpumem::cuda_headers: NVIDIA's public headers, and nothing to link. From .deps/cuda/include (laid there by scripts/bootstrap from small
# PyPI wheels), else from an installed CUDA toolkit. GPUMEM_CUDA_INCLUDE names another folder.
set(GPUMEM_CUDA_INCLUDE "" CACHE PATH "Folder that holds cuda.h")
find_path(GPUMEM_CUDA_INCLUDE_FOUND cuda.h
  PATHS ${GPUMEM_CUDA_INCLUDE} ${PROJECT_SOURCE_DIR}/.deps/cuda/include /usr/local/cuda/include
  NO_DEFAULT_PATH)
if(NOT GPUMEM_CUDA_INCLUDE_FOUND)
  message(FATAL_ERROR "cuda.h not found. Run scripts/bootstrap, or pass -DGPUMEM_CUDA_INCLUDE=<folder with cuda.h>.")
endif()
add_library(gpumem_cuda_headers INTERFACE)
add_library(gpumem::cuda_headers ALIAS gpumem_cuda_headers)
target_include_directories(gpumem_cuda_headers SYSTEM INTERFACE ${GPUMEM_CUDA_INCLUDE_FOUND})
