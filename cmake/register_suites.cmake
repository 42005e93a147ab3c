# Run by ctest, not by CMake: lists the suites of one GoogleTest program and adds a test for each.
# In: suite_program, suite_prefix, suite_label, suite_results; under a sanitizer also
# suite_report_checker, the command that fails where a process of a suite left a report.

if(NOT EXISTS "${suite_program}")
  add_test("${suite_prefix}.NOT_BUILT" "${suite_program}")
  set_tests_properties("${suite_prefix}.NOT_BUILT" PROPERTIES LABELS "${suite_label}")
  return()
endif()

execute_process(COMMAND "${suite_program}" --gtest_list_tests
                OUTPUT_VARIABLE suite_listing RESULT_VARIABLE suite_failed)
if(suite_failed)
  add_test("${suite_prefix}.DOES_NOT_START" "${suite_program}" --gtest_list_tests)
  set_tests_properties("${suite_prefix}.DOES_NOT_START" PROPERTIES LABELS "${suite_label}")
  return()
endif()

# The end of the output of a suite in which every case was skipped and none failed. (ctest asks this
# before it looks at the exit status, so the pattern must not match where a failure is listed.)
set(skip_line "\\[  SKIPPED \\] [^\n]*\n+")
set(all_skipped "\\[  PASSED  \\] 0 tests\\.\n(${skip_line})+$")

# Reports go to files named after the suite, because a test may not look at what became of a child.
if(suite_report_checker)
  set(report_folder "${suite_results}/sanitizer")
  file(MAKE_DIRECTORY "${report_folder}")
  add_test("${suite_prefix}.sanitizer_reports" ${suite_report_checker} "${suite_prefix}" "${suite_results}")
  set_tests_properties("${suite_prefix}.sanitizer_reports" PROPERTIES
    LABELS "${suite_label}" FIXTURES_CLEANUP "${suite_prefix}.reports")
endif()

# A suite is a line without indentation that ends in a dot; comments about parameters may follow it.
string(REPLACE ";" "," suite_listing "${suite_listing}")
string(REGEX REPLACE "[][]" "_" suite_listing "${suite_listing}")
string(REPLACE "\n" ";" suite_lines "${suite_listing}")
set(suites "")
foreach(line IN LISTS suite_lines)
  if(NOT line MATCHES "^([^ ]+)\\.([ ]+#.*)?$")
    continue()
  endif()
  set(suite "${CMAKE_MATCH_1}")
  string(APPEND suites "${suite_prefix}.${suite}\n")
  string(REPLACE "/" "-" file_name "${suite_prefix}.${suite}")
  add_test("${suite_prefix}.${suite}" "${suite_program}" "--gtest_filter=${suite}.*"
           "--gtest_output=xml:${suite_results}/${file_name}.xml")
  set_tests_properties("${suite_prefix}.${suite}" PROPERTIES
    LABELS "${suite_label}" TIMEOUT 3600
    SKIP_REGULAR_EXPRESSION "${all_skipped}"
    ENVIRONMENT "TUTTI_CACHE=off")  # what other runs have measured changes nothing
  # Dozens of ranks that yield to each other leave a test beside them nothing, nor it them.
  if(suite MATCHES ".Alone$")
    set_tests_properties("${suite_prefix}.${suite}" PROPERTIES RUN_SERIAL TRUE)
  endif()
  if(suite_report_checker)
    set(reports "string_append: log_path='${report_folder}/${file_name}'")
    set(options "LSAN_OPTIONS=${reports}" "TSAN_OPTIONS=${reports}")
    # Beside the address sanitizer, libubsan of g++ 12 writes to no log: it aborts, and that one tells.
    list(APPEND options "ASAN_OPTIONS=${reports} handle_abort=1" "UBSAN_OPTIONS=${reports} abort_on_error=1")
    set_tests_properties("${suite_prefix}.${suite}" PROPERTIES
      FIXTURES_REQUIRED "${suite_prefix}.reports" ENVIRONMENT_MODIFICATION "${options}")
  endif()
endforeach()

if(NOT suites)
  add_test("${suite_prefix}.HAS_NO_SUITES" "${suite_program}" --gtest_list_tests)
  set_tests_properties("${suite_prefix}.HAS_NO_SUITES" PROPERTIES LABELS "${suite_label}" WILL_FAIL TRUE)
endif()
file(MAKE_DIRECTORY "${suite_results}")
file(APPEND "${suite_results}/suites" "${suites}")  # for tools/test_summary.py
