# The tests of tests/sanitizers, builds of their own in build/sanitizers and build/thread_sanitizer: two tests make them, the
# others run what is in them.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
function(add_sanitizer_build name folder sanitizers)
    add_test(NAME ${name}_build
             COMMAND "${CMAKE_CTEST_COMMAND}" --build-and-test "${CMAKE_CURRENT_SOURCE_DIR}/sanitizers" "${folder}"
                     --build-generator Ninja --build-noclean --build-options "-DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}"
                     "-DKILN_EXECUTABLE=$<TARGET_FILE:kiln>" "-DKILN_SANITIZERS=${sanitizers}")
    set_tests_properties(${name}_build PROPERTIES FIXTURES_SETUP ${name} PROCESSORS ${processors} TIMEOUT 900)
endfunction()

add_sanitizer_build(thread_sanitizer "${CMAKE_BINARY_DIR}/thread_sanitizer" thread)
foreach(test IN ITEMS small_test kinds_test)
    add_test(NAME thread_sanitizer_${test} COMMAND "${CMAKE_BINARY_DIR}/thread_sanitizer/${test}")
    set_tests_properties(thread_sanitizer_${test} PROPERTIES FIXTURES_REQUIRED thread_sanitizer)
endforeach()

set(folder "${CMAKE_BINARY_DIR}/sanitizers")
add_sanitizer_build(sanitizers "${folder}" "address,undefined")
foreach(test IN ITEMS kiln_semantics_tests frontend_test harness_test small_test kinds_test)
    add_test(NAME sanitizers_${test} COMMAND "${folder}/${test}")
    set_tests_properties(sanitizers_${test} PROPERTIES FIXTURES_REQUIRED sanitizers)
endforeach()

# Each fuzz target on its seeds, on what broke something before, and for some seconds on what comes of them. New inputs are
# forgotten, so that the test stays as long as it is; those that break something stay in build/fuzz/NAME/.
file(GLOB sources CONFIGURE_DEPENDS fuzz/*.cpp)
foreach(source IN LISTS sources)
    get_filename_component(target ${source} NAME_WE)
    set(broken "${CMAKE_BINARY_DIR}/fuzz/${target}")
    set(new "${broken}.new")
    file(MAKE_DIRECTORY "${broken}")
    add_test(NAME fuzz_${target}
             COMMAND sh -c "rm -rf \"$1\" && mkdir \"$1\" && exec \"$0\" -max_total_time=3 -timeout=10 -artifact_prefix=\"$2\"/ \"$@\""
                     "${folder}/fuzz_${target}" "${new}" "${broken}" "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${target}")
    set_tests_properties(fuzz_${target} PROPERTIES FIXTURES_REQUIRED sanitizers)
endforeach()
