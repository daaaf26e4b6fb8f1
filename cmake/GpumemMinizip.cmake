# SPDX-License-Identifier: Apache-2.0
# gpumem::minizip: zlib's writer of zip archives, for `gpumemshim bundle`. As an archive where there is one, so that gpumemshim stays one file to copy.
include_guard(GLOBAL)
find_path(GPUMEM_MINIZIP_INCLUDE minizip/zip.h REQUIRED)
find_library(GPUMEM_MINIZIP_LIBRARY NAMES libminizip.a minizip REQUIRED)
find_library(GPUMEM_MINIZIP_ZLIB NAMES libz.a z REQUIRED)
add_library(gpumem_minizip INTERFACE)
add_library(gpumem::minizip ALIAS gpumem_minizip)
target_include_directories(gpumem_minizip SYSTEM INTERFACE ${GPUMEM_MINIZIP_INCLUDE})
target_link_libraries(gpumem_minizip INTERFACE ${GPUMEM_MINIZIP_LIBRARY} ${GPUMEM_MINIZIP_ZLIB})
