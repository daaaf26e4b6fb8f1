# SPDX-License-Identifier: Apache-2.0
# gpumem::ncurses: ncurses with wide characters, for `gpumemshim live`. As archives where there are some, so that gpumemshim stays one file to copy.
# The shared library and its archive need terminfo (libtinfo) beside it; some systems have it inside ncurses itself.
include_guard(GLOBAL)
find_path(GPUMEM_NCURSES_INCLUDE ncurses.h REQUIRED)
find_library(GPUMEM_NCURSES NAMES libncursesw.a ncursesw REQUIRED)
find_library(GPUMEM_TINFO NAMES libtinfo.a tinfow tinfo)
add_library(gpumem_ncurses INTERFACE)
add_library(gpumem::ncurses ALIAS gpumem_ncurses)
target_include_directories(gpumem_ncurses SYSTEM INTERFACE ${GPUMEM_NCURSES_INCLUDE})
target_link_libraries(gpumem_ncurses INTERFACE ${GPUMEM_NCURSES} $<$<BOOL:${GPUMEM_TINFO}>:${GPUMEM_TINFO}> ${CMAKE_DL_LIBS})
