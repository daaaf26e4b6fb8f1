# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# A page, made one file of its sources (GpumemPage.cmake) and put into a library as bytes by NAME.S:
#
#   gpumem_embed_page(flame_page STYLES base style SCRIPTS format data main)   # flame_page/{page.html,base.css,format.js,...}
#   gpumem_embed_page(report_page STYLES ../views/flame_page/base style SCRIPTS ../views/flame_page/format page)   # of another page
#
# Style sheets and scripts stand in the order in which they are named.

function(gpumem_page_files result name ending)
  set(files "")
  foreach(file IN LISTS ARGN)
    if(NOT file MATCHES "/")
      set(file ${name}/${file})
    endif()
    get_filename_component(path ${CMAKE_CURRENT_SOURCE_DIR}/${file}.${ending} ABSOLUTE)
    list(APPEND files ${path})
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

function(gpumem_embed_page name)
  cmake_parse_arguments(PARSE_ARGV 1 page "" "" "STYLES;SCRIPTS")
  gpumem_page_files(styles ${name} css ${page_STYLES})
  gpumem_page_files(scripts ${name} js ${page_SCRIPTS})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  list(JOIN styles "," joined_styles)
  list(JOIN scripts "," joined)
  set(page ${CMAKE_CURRENT_BINARY_DIR}/${name}.html)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -DPAGE=${folder}/page.html "-DSTYLES=${joined_styles}" "-DSCRIPTS=${joined}" -DOUT=${page}
            -P ${PROJECT_SOURCE_DIR}/cmake/GpumemPage.cmake
    DEPENDS ${folder}/page.html ${styles} ${scripts} ${PROJECT_SOURCE_DIR}/cmake/GpumemPage.cmake
    VERBATIM)
  string(TOUPPER ${name} upper)
  set_source_files_properties(${name}.S PROPERTIES COMPILE_DEFINITIONS GPUMEM_${upper}="${page}" OBJECT_DEPENDS ${page})
endfunction()
