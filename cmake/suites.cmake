# Read by ctest before it runs tests: one test of each suite of a googletest program, in one process, and one of each case that
# runs apart. Given: `name`, `program`, the patterns `left_out` and `apart` of gtest's filter, `runner` (test/suite), `hangs`.

if(NOT EXISTS "${program}")
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
  return()
endif()

# The program's list: each suite, and after it its cases, which begin with blanks.
function(lsmfs_list filter result)
  execute_process(COMMAND "${program}" --gtest_list_tests "--gtest_filter=${filter}" OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")  # the values of parameters
  string(REGEX MATCHALL "[^\n]+" lines "${listed}")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

function(lsmfs_add cases filter)
  add_test(${name}.${cases} "${runner}" "${program}" "${filter}")
  set_tests_properties(${name}.${cases} PROPERTIES TIMEOUT ${hangs} SKIP_RETURN_CODE 77)
endfunction()

if(apart)
  lsmfs_list("${apart}-${left_out}" lines)
  foreach(line IN LISTS lines)
    if(line MATCHES "^  (.+)$")
      lsmfs_add(${suite}.${CMAKE_MATCH_1} "${suite}.${CMAKE_MATCH_1}")
    elseif(line MATCHES "^([^ ]+)\\.$")
      set(suite ${CMAKE_MATCH_1})
    endif()
  endforeach()
endif()
lsmfs_list("*-${left_out}:${apart}" lines)
foreach(line IN LISTS lines)
  if(line MATCHES "^([^ ]+)\\.$")
    lsmfs_add(${CMAKE_MATCH_1} "${CMAKE_MATCH_1}.*-${left_out}:${apart}")
  endif()
endforeach()
