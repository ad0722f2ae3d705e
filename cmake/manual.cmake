# The man pages: scdoc makes them of man/*.scd, beside the program. Without scdoc there are none.
find_program(LSMFS_SCDOC scdoc)
if(NOT LSMFS_SCDOC)
  message(STATUS "No scdoc found: no man pages are made or installed")
  return()
endif()

foreach(page lsmfs.5 lsmfs.8 lsmfs-fsck.8 lsmfs-info.8 lsmfs-layout.8 lsmfs-mkfs.8 lsmfs-mount.8 lsmfs-resize.8 lsmfs-scrub.8 lsmfs-stats.8 lsmfs-top.8 lsmfs-trim.8 lsmfs-tune.8 lsmfs-umount.8)
  set(source ${PROJECT_BINARY_DIR}/man/${page}.scd)
  set(made ${PROJECT_BINARY_DIR}/man/${page})
  configure_file(man/${page}.scd ${source} @ONLY)  # for the version
  add_custom_command(OUTPUT ${made} COMMAND ${LSMFS_SCDOC} < ${source} > ${made} DEPENDS ${source} VERBATIM)
  list(APPEND LSMFS_PAGES ${made})
endforeach()
add_custom_target(manual DEPENDS ${LSMFS_PAGES})
add_dependencies(lsmfs manual)  # who builds nothing but the program can install it
