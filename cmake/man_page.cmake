# SPDX-License-Identifier: Apache-2.0
# cmesh_man_page(manager [compile]) has the program, or its command, print its manual page into
# <build>/man and installs it. The program must run where it is built: see CMESH_MAN_PAGES.
function(cmesh_man_page program)
  if(NOT CMESH_MAN_PAGES)
    return()
  endif()
  list(JOIN ARGV - name)
  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
    COMMAND $<TARGET_FILE:${program}> ${ARGN} --man > ${page}
    DEPENDS ${program}
    VERBATIM)
  add_custom_target(man.${name} ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()
