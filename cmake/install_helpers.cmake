# Run by `cmake --install`, which alone knows the prefix. See install.cmake.
cmake_path(ABSOLUTE_PATH bin BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
cmake_path(ABSOLUTE_PATH sbin BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)

# Types as the mount table has them: fuseblk.lsmfs on a block device, fuse.lsmfs for an image.
file(RELATIVE_PATH program "${sbin}" "${bin}/lsmfs")
file(MAKE_DIRECTORY "$ENV{DESTDIR}${sbin}")
foreach(name mkfs.lsmfs fsck.lsmfs fsck.fuse.lsmfs fsck.fuseblk.lsmfs
             mount.lsmfs mount.fuse.lsmfs mount.fuseblk.lsmfs)
  message(STATUS "Installing: $ENV{DESTDIR}${sbin}/${name}")
  file(CREATE_LINK "${program}" "$ENV{DESTDIR}${sbin}/${name}" SYMBOLIC)
endforeach()

set(lsmfs "${bin}/lsmfs")
configure_file("${source}/cmake/61-lsmfs.rules.in" "${build}/61-lsmfs.rules" @ONLY)
file(INSTALL "${build}/61-lsmfs.rules" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/udev/rules.d")
