# `cmake --install`: the program, its links under the names by which mount(8), fsck(8) and mkfs(8) look for it,
# the rule for udev, units of systemd, man pages and completions. mount(8) looks in /sbin only: for it the prefix has to be /usr.

install(TARGETS lsmfs RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS lsmfs-whole RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/lsmfs)
foreach(page ${LSMFS_PAGES})
  cmake_path(GET page EXTENSION LAST_ONLY section)
  string(REPLACE "." "man" folder ${section})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/${folder})
endforeach()
install(FILES completions/lsmfs.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lsmfs)
install(FILES completions/_lsmfs DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/lsmfs.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(CODE "
  set(bin \"${CMAKE_INSTALL_BINDIR}\")
  set(sbin \"${CMAKE_INSTALL_SBINDIR}\")
  set(data \"${CMAKE_INSTALL_DATADIR}\")
  set(man \"${CMAKE_INSTALL_MANDIR}\")
  set(pages \"${LSMFS_PAGES}\")
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(build \"${PROJECT_BINARY_DIR}\")")
install(SCRIPT cmake/install_helpers.cmake)
