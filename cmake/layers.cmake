# How the project's own targets are made: warnings are errors, sanitizers by preset.

# A test that takes so many seconds hangs. None takes a tenth of it on two processors that nobody else has; but others may.
set(LSMFS_HANGS 1500)

function(lsmfs_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Werror)
  # gcc 12 and 16 give these wrongly, with optimisation on, of headers that they have not read anew and of containers.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  if(LSMFS_SANITIZE)
    # What the sanitizer of undefined behaviour finds ends the test as well; else it would only be printed.
    target_compile_options(${target} PUBLIC -fsanitize=${LSMFS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(LSMFS_SANITIZE MATCHES undefined AND NOT LSMFS_FUZZ)
      # At each access to memory, where the address sanitizer looks too. They take 40 % of the time of compiling; the programs
      # of libFuzzer are made with them.
      target_compile_options(${target} PUBLIC -fno-sanitize=null,alignment,object-size,vptr)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${LSMFS_SANITIZE})
  endif()
  if(LSMFS_FUZZ)
    target_compile_options(${target} PUBLIC -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# lsmfs_layer(name SOURCES a.cc b.cc USES lower layers and libraries PRECOMPILE <a.h>)
# One layer as a static library lsmfs_<name>. Its own headers are in src/<name>, its public one
# in include/lsmfs/<name>.h.
function(lsmfs_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PRIVATE_USES;PRECOMPILE" ${ARGN})
  add_library(lsmfs_${name} STATIC ${ARG_SOURCES})
  target_include_directories(lsmfs_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(lsmfs_${name} PUBLIC ${ARG_USES} PRIVATE ${ARG_PRIVATE_USES})
  lsmfs_own_target(lsmfs_${name})
  # Reading headers takes most of the time of compiling a small file. Layers without their own use those of the lowest.
  if(ARG_PRECOMPILE)
    target_precompile_headers(lsmfs_${name} PRIVATE ${ARG_PRECOMPILE})
  else()
    target_precompile_headers(lsmfs_${name} REUSE_FROM lsmfs_base)
  endif()
endfunction()

# lsmfs_test(name SOURCES a_test.cc SEQUENTIAL b_test.cc USES layers APART Suite.* WITHOUT_THREADS Suite.* HEAVY Suite.Case): one
# googletest program. Each suite is a ctest, in one process, for with a sanitizer a process takes longer to start than most cases
# to run. Each case that is APART is a ctest of its own, for it takes long, and others can run beside it.
# Left out with the thread sanitizer: SEQUENTIAL, sources of tests in which little or nothing runs at the same time. Only in
# `scripts/test --long sanitizers` run, with any sanitizer, HEAVY ones, which fill volumes or count to a million, and with that of
# threads WITHOUT_THREADS, long ones in SOURCES in which little runs at the same time.
# OPTIMISED: a test that takes much of the time itself, as a model does.
function(lsmfs_test name)
  cmake_parse_arguments(ARG "OPTIMISED" "" "SOURCES;SEQUENTIAL;USES;APART;WITHOUT_THREADS;HEAVY" ${ARGN})
  if(LSMFS_SANITIZE STREQUAL thread)
    set(ARG_SEQUENTIAL)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_SEQUENTIAL})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test)
  target_link_libraries(${name} PRIVATE ${ARG_USES} GTest::gtest_main)
  lsmfs_own_target(${name})
  # Templates that many of them have take most of the time of compiling one. Each has a namespace of its own.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 14)
  if(NOT ARG_OPTIMISED OR LSMFS_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)  # what they test is optimised: that is where the time goes
  endif()
  # They take most of the time of compiling a test: 7.1 s without, 2.0 s with. The lowest layer's test makes them for all.
  if(name STREQUAL base_test OR ARG_OPTIMISED)
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <functional> <map> <memory> <optional> <random> <string> <vector>)
  else()
    target_precompile_headers(${name} REUSE_FROM base_test)
  endif()
  if(LSMFS_SANITIZE STREQUAL thread)
    list(APPEND ARG_HEAVY ${ARG_WITHOUT_THREADS})
  endif()
  set(left_out)
  if(ARG_HEAVY AND LSMFS_SANITIZE)
    list(JOIN ARG_HEAVY ":" left_out)
    add_test(NAME ${name}.heavy.long COMMAND ${name} --gtest_filter=${left_out} CONFIGURATIONS Long)
    set_tests_properties(${name}.heavy.long PROPERTIES LABELS "long;long-sanitizers" TIMEOUT 7200)
  endif()
  list(JOIN ARG_APART ":" apart)
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  file(GENERATE OUTPUT ${suites} CONTENT "\
set(name ${name})
set(program [==[$<TARGET_FILE:${name}>]==])
set(left_out ${left_out})
set(apart ${apart})
set(runner [==[${PROJECT_SOURCE_DIR}/test/suite]==])
set(hangs ${LSMFS_HANGS})
include([==[${PROJECT_SOURCE_DIR}/cmake/suites.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
endfunction()
