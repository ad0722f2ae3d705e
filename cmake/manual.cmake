# The man pages: scdoc makes them of man/*.scd, beside the program, and those of the benchmarks of bench/man/*.scd. Without scdoc there are none.
find_program(LSMFS_SCDOC scdoc)
if(NOT LSMFS_SCDOC)
  message(STATUS "No scdoc found: no man pages are made or installed")
  return()
endif()

# manual(TARGET LIST FOLDER page...): LIST names what TARGET makes of the pages in FOLDER.
function(manual target list folder)
  foreach(page ${ARGN})
    set(source ${PROJECT_BINARY_DIR}/${folder}/${page}.scd)
    set(made ${PROJECT_BINARY_DIR}/${folder}/${page})
    configure_file(${folder}/${page}.scd ${source} @ONLY)  # for the version
    # The first line says that there are tables, for whom man(1) asks tbl(1).
    add_custom_command(OUTPUT ${made} COMMAND ${CMAKE_COMMAND} -E echo "'\\\" t" > ${made} COMMAND ${LSMFS_SCDOC} < ${source} >> ${made} DEPENDS ${source} VERBATIM)
    list(APPEND pages ${made})
  endforeach()
  add_custom_target(${target} DEPENDS ${pages})
  set(${list} ${pages} PARENT_SCOPE)
endfunction()

manual(manual LSMFS_PAGES man lsmfs.5 lsmfs.8 lsmfs-changes.8 lsmfs-clone.8 lsmfs-diff.8 lsmfs-fsck.8 lsmfs-import.8 lsmfs-info.8 lsmfs-layout.8 lsmfs-mkfs.8 lsmfs-mount.8 lsmfs-prune.8 lsmfs-receive.8 lsmfs-resize.8 lsmfs-rm.8 lsmfs-rollback.8 lsmfs-scrub.8 lsmfs-send.8 lsmfs-snapshot.8 lsmfs-snapshots.8 lsmfs-stats.8 lsmfs-top.8 lsmfs-trim.8 lsmfs-tune.8 lsmfs-umount.8)
add_dependencies(lsmfs manual)  # who builds nothing but the program can install it
manual(bench_manual LSMFS_BENCH_PAGES bench/man lsmfs-aging.1 lsmfs-compare.1 lsmfs-simdisk.1)
add_dependencies(lsmfs-simdisk bench_manual)
