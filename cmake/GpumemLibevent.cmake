# SPDX-License-Identifier: Apache-2.0
# gpumem::libevent: libevent's HTTP server, for `gpumemshim serve`. As archives where there are some, so that gpumemshim stays one file to copy.
include_guard(GLOBAL)
find_path(GPUMEM_LIBEVENT_INCLUDE event2/http.h REQUIRED)
find_library(GPUMEM_LIBEVENT_EXTRA NAMES libevent_extra.a event_extra REQUIRED)
find_library(GPUMEM_LIBEVENT_CORE NAMES libevent_core.a event_core REQUIRED)
add_library(gpumem_libevent INTERFACE)
add_library(gpumem::libevent ALIAS gpumem_libevent)
target_include_directories(gpumem_libevent SYSTEM INTERFACE ${GPUMEM_LIBEVENT_INCLUDE})
target_link_libraries(gpumem_libevent INTERFACE ${GPUMEM_LIBEVENT_EXTRA} ${GPUMEM_LIBEVENT_CORE})
