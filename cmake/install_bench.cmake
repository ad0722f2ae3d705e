# `cmake --install BUILD --component bench`: the benchmarks as lsmfs-compare, lsmfs-aging and lsmfs-simdisk. No part of `cmake --install`
# without that: who mounts a file system needs none of it. The target lsmfs-simdisk has to be built before.
set(folder ${CMAKE_INSTALL_DATADIR}/lsmfs-bench)
install(TARGETS lsmfs-simdisk RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT bench EXCLUDE_FROM_ALL)
# As they lie here, for they find each other so.
install(DIRECTORY bench/compare bench/shared bench/aging DESTINATION ${folder}/bench USE_SOURCE_PERMISSIONS COMPONENT bench EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN compare/compare PATTERN aging/lsmfs-aging PATTERN gitconfig PATTERN "*.py" PATTERN "*.toml" PATTERN "*.csv"
        PATTERN simdisk/test EXCLUDE PATTERN simdisk/bandwidth.py EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES scripts/support/caches.py scripts/support/loop.py scripts/support/two_programs.py scripts/support/synthetic_repository.py scripts/support/workspace.py
        DESTINATION ${folder}/scripts/support COMPONENT bench EXCLUDE_FROM_ALL)
install(FILES ${LSMFS_BENCH_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT bench EXCLUDE_FROM_ALL)
install(CODE "
  file(RELATIVE_PATH from \"/${CMAKE_INSTALL_BINDIR}\" \"/${folder}/bench\")
  foreach(program compare/compare aging/lsmfs-aging)
    string(REGEX REPLACE \".*/(lsmfs-)?\" lsmfs- name \${program})
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    file(CREATE_LINK \"\${from}/\${program}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/\${name}\" SYMBOLIC)
  endforeach()" COMPONENT bench EXCLUDE_FROM_ALL)
