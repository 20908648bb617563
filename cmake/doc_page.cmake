# SPDX-License-Identifier: Apache-2.0
# cmesh_doc_pages(README.md docs/...) installs these pages. Their links to one another stay; what
# they say of other files of the sources becomes plain text, since those are not installed.
#
# As a script (-P) it writes one page: SOURCE, relative to the folder ROOT, to OUTPUT; PAGES are those
# that are installed.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  file(READ ${ROOT}/${SOURCE} text)
  get_filename_component(folder ${ROOT}/${SOURCE} DIRECTORY)
  string(REGEX MATCHALL "\\[[^]]*\\]\\([^)]*\\)" links "${text}")
  list(REMOVE_DUPLICATES links)
  foreach(link IN LISTS links)
    string(REGEX REPLACE "^\\[(.*)\\]\\(([^#]*).*\\)$" "\\1;\\2" parts "${link}")
    list(GET parts 0 words)
    list(GET parts 1 target)
    if(target STREQUAL "" OR target MATCHES "^[a-z]+:")
      continue()
    endif()
    file(RELATIVE_PATH path ${ROOT} ${folder}/${target})
    if(path IN_LIST PAGES)
      continue()
    endif()
    string(REPLACE "`" "" plain "${words}")
    if(path MATCHES "^${plain}/?(README\\.md)?$")
      string(REPLACE "${link}" "${words}" text "${text}")
    else()
      string(REPLACE "${link}" "${words} (`${path}`)" text "${text}")
    endif()
  endforeach()
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

function(cmesh_doc_pages)
  set(made)
  foreach(page ${ARGN})
    set(output ${PROJECT_BINARY_DIR}/doc/${page})
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DSOURCE=${page} -DOUTPUT=${output}
        "-DPAGES=${ARGN}" -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
      DEPENDS ${page} ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
      VERBATIM)
    get_filename_component(folder ${page} DIRECTORY)
    install(FILES ${output} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
    list(APPEND made ${output})
  endforeach()
  add_custom_target(doc ALL DEPENDS ${made})
endfunction()
