# Run by `cmake --install`, which alone knows the prefix. See install.cmake.
foreach(folder bin sbin data man)
  cmake_path(ABSOLUTE_PATH ${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
endforeach()

function(link target name)
  message(STATUS "Installing: $ENV{DESTDIR}${name}")
  cmake_path(GET name PARENT_PATH folder)
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${folder}")
  file(CREATE_LINK "${target}" "$ENV{DESTDIR}${name}" SYMBOLIC)
endfunction()

# Types as the mount table has them: fuseblk.lsmfs on a block device, fuse.lsmfs for an image.
# Each helper has its command's page. bash and fish look for a completion under the name that is typed.
file(RELATIVE_PATH program "${sbin}" "${bin}/lsmfs")
foreach(name mkfs.lsmfs fsck.lsmfs fsck.fuse.lsmfs fsck.fuseblk.lsmfs
             mount.lsmfs mount.fuse.lsmfs mount.fuseblk.lsmfs)
  string(REGEX REPLACE "[.].*" "" command ${name})
  link("${program}" "${sbin}/${name}")
  if(pages)
    link("lsmfs-${command}.8" "${man}/man8/${name}.8")
  endif()
  link("lsmfs" "${data}/bash-completion/completions/${name}")
  link("lsmfs.fish" "${data}/fish/vendor_completions.d/${name}.fish")
endforeach()

set(lsmfs "${bin}/lsmfs")
configure_file("${source}/cmake/61-lsmfs.rules.in" "${build}/61-lsmfs.rules" @ONLY)
file(INSTALL "${build}/61-lsmfs.rules" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/udev/rules.d")

file(GLOB units "${source}/systemd/*.service" "${source}/systemd/*.timer")
foreach(unit ${units})
  cmake_path(GET unit FILENAME name)
  configure_file("${unit}" "${build}/systemd/${name}" @ONLY)
  file(INSTALL "${build}/systemd/${name}" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
endforeach()
