# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# What `cmake --install build/release --prefix P` makes beside the targets, whose own CMakeLists.txt install them. The tree works from wherever it
# is moved to: each part finds the others from its own place.
#
#   bin/gpumemshim
#   lib/gpumemshim/libgpumemshim.so, lib/gpumemshim/simcuda/   private: on no search path, whatever the machine calls its library folder
#   lib/gpumemshim/libduckdb.so                               where scripts/bootstrap could get it
#   share/gpumemshim/simcuda/, share/gpumemshim/python/       the launcher of `gpumemshim plan`; the package gpumemshim
#   share/gpumemshim/examples/                                traces for `gpumemshim report --example oom`
#   share/gpumemshim/skills/                                  what an assistant loads
#   share/man, share/bash-completion, share/zsh, share/fish   made by scripts/lib/install_pages.py
#   share/doc/gpumemshim/                                     licences of all that is in the files
set(GPUMEM_INSTALL_LIB lib/gpumemshim)
set(GPUMEM_INSTALL_DOC share/doc/gpumemshim)

# gpumem_install(TARGET FOLDER): and scripts/package, which builds what is installed, knows of it.
function(gpumem_install target folder)
  install(TARGETS ${target} RUNTIME DESTINATION ${folder} LIBRARY DESTINATION ${folder})
  set_property(GLOBAL APPEND PROPERTY GPUMEM_INSTALLED ${target})
endfunction()

install(FILES include/gpumemshim.h DESTINATION include)
install(DIRECTORY python/ DESTINATION share/gpumemshim/python FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "*.pyi" PATTERN "*.sql" PATTERN "*.toml" PATTERN "README.md"
  PATTERN "__pycache__" EXCLUDE PATTERN "*.egg-info" EXCLUDE PATTERN "build" EXCLUDE)
install(DIRECTORY skills DESTINATION share/gpumemshim)
install(DIRECTORY examples/traces/ DESTINATION share/gpumemshim/examples FILES_MATCHING PATTERN "*.gmtrace")
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${GPUMEM_INSTALL_DOC})

# Manual pages, completions and licences come from the installed program itself, docs/commands and the packages that were linked.
function(gpumem_install_pages)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  install(CODE "
    execute_process(
      COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/lib/install_pages.py --gpumem $<TARGET_FILE:gpumem> --version ${PROJECT_VERSION}
              --duckdb ${GPUMEM_DUCKDB} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\"
      COMMAND_ERROR_IS_FATAL ANY)")
endfunction()
