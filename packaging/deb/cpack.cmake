# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# What scripts/package gives to CPack: cpack --config packaging/deb/cpack.cmake -D "CPACK_INSTALLED_DIRECTORIES=TREE;usr" -D CPACK_PACKAGE_VERSION=0.1.0 -B OUT.
# The tree is linked against an older glibc, so one package serves every Debian and Ubuntu that has that.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpumemshim)
set(CPACK_PACKAGE_VENDOR "The gpumemshim authors")
set(CPACK_PACKAGE_CONTACT "The gpumemshim authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU memory profiler for PyTorch and CUDA")
set(CPACK_PACKAGE_DESCRIPTION
  "Records every GPU allocation of an unmodified program, shows by line, module and step what fills the memory, and predicts peaks without a GPU.")
set(CPACK_INSTALL_CMAKE_PROJECTS "")
set(CPACK_STRIP_FILES OFF)
set(CPACK_PACKAGE_FILE_NAME gpumemshim)  # of its working folder; the package is named as Debian names them
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# The C++ runtime is for DuckDB's library, Python for `gpumemshim plan` and `import gpumemshim`.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.28), libstdc++6 (>= 8)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_LIST_DIR}/prerm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
