# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# Makes one HTML file of a page's sources: the style sheets and the scripts are put where the page has @STYLE@ and @SCRIPT@, and their hashes
# where its content security policy has @STYLE_HASH@ and @SCRIPT_HASH@, so that a browser runs these and nothing else.
#
#   cmake -DPAGE=page.html -DSTYLES=base.css,style.css "-DSCRIPTS=a.js,b.js" -DOUT=whole.html -P GpumemPage.cmake

cmake_minimum_required(VERSION 3.25)

set(ALPHABET "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

# The 64 hexadecimal digits of a SHA-256 as base64: 42 digits of 6 bits, one of 4 bits, and a filler.
function(hex_to_base64 hex result)
  set(text "")
  foreach(at RANGE 0 60 3)
    string(SUBSTRING "${hex}" ${at} 3 digits)
    math(EXPR high "0x${digits} >> 6")
    math(EXPR low "0x${digits} & 63")
    string(SUBSTRING "${ALPHABET}" ${high} 1 first)
    string(SUBSTRING "${ALPHABET}" ${low} 1 second)
    string(APPEND text "${first}${second}")
  endforeach()
  string(SUBSTRING "${hex}" 63 1 digit)
  math(EXPR last "0x${digit} << 2")
  string(SUBSTRING "${ALPHABET}" ${last} 1 final)
  set(${result} "${text}${final}=" PARENT_SCOPE)
endfunction()

function(hash_for_policy text result)
  string(SHA256 hex "${text}")
  hex_to_base64(${hex} base64)
  set(${result} "sha256-${base64}" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
set(style "")
string(REPLACE "," ";" STYLES "${STYLES}")
foreach(name IN LISTS STYLES)
  file(READ "${name}" text)
  string(APPEND style "${text}")
endforeach()
set(script "'use strict';\n(() => {\n")
string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
foreach(name IN LISTS SCRIPTS)
  file(READ "${name}" text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")

if(script MATCHES "</[sS][cC][rR][iI][pP][tT]" OR style MATCHES "</[sS][tT][yY][lL][eE]")
  message(FATAL_ERROR "${PAGE}: a script or the style sheet holds the text that would end it")
endif()
hash_for_policy("${script}" script_hash)
hash_for_policy("${style}" style_hash)
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE "${OUT}" "${page}")
