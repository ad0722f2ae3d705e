# `cmake --install`: the program, its links under the names by which mount(8), fsck(8) and mkfs(8) look for it, and
# the rule for udev. mount(8) looks in /sbin only: for it the prefix has to be /usr.
include(GNUInstallDirs)

install(TARGETS lsmfs RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "
  set(bin \"${CMAKE_INSTALL_BINDIR}\")
  set(sbin \"${CMAKE_INSTALL_SBINDIR}\")
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(build \"${PROJECT_BINARY_DIR}\")")
install(SCRIPT cmake/install_helpers.cmake)
