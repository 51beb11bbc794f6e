# Calls of kiln_add_library() that must stop, each with what its message must say. Run by `cmake -P`; every call is made in
# a CMake of its own (CALL holds it), because the message ends it.
if(DEFINED CALL)
    include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/KilnAddLibrary.cmake")
    cmake_language(EVAL CODE "${CALL}")
    return()
endif()

set(layers "LAYERS ${CMAKE_CURRENT_LIST_FILE}")

function(expect call message)
    execute_process(COMMAND "${CMAKE_COMMAND}" "-DCALL=${call}" -P "${CMAKE_CURRENT_LIST_FILE}"
                    RESULT_VARIABLE status ERROR_VARIABLE said)
    string(REGEX REPLACE "[ \n]+" " " said "${said}")
    string(FIND "${said}" "${message}" at)
    if(status EQUAL 0 OR at EQUAL -1)
        message(SEND_ERROR "${call}\n  should stop with: ${message}\n  exit status ${status}, said: ${said}")
    endif()
endfunction()

expect("kiln_add_library(2net ${layers})" "the name \"2net\" is not a C identifier")
expect("kiln_add_library(my-net ${layers})" "the name \"my-net\" is not a C identifier")
expect("kiln_add_library(net)" "kiln_add_library(net): give either LAYERS or MODEL")
expect("kiln_add_library(net ${layers} MODEL m.onnx)" "kiln_add_library(net): give either LAYERS or MODEL")
expect("kiln_add_library(net ${layers} TARGETS)" "kiln_add_library(net): no value for TARGETS")
expect("kiln_add_library(net ${layers} DECISIONS)" "kiln_add_library(net): no value for DECISIONS")
expect("kiln_add_library(net ${layers} EMBED)" "kiln_add_library(net): unknown arguments: EMBED")
expect("kiln_add_library(net ${layers} LAYER)" "kiln_add_library(net): no value for LAYER")
expect("kiln_add_library(net ${layers} EMBED_WEIGHTS EMBED_RAW_WEIGHTS)" "give either EMBED_WEIGHTS or EMBED_RAW_WEIGHTS")
expect("kiln_add_library(net LAYERS absent.toml)" "kiln_add_library(net): there is no file")
expect("kiln_add_library(net ${layers} DECISIONS absent.toml)" "kiln_add_library(net): there is no file")
expect("set(CMAKE_CROSSCOMPILING TRUE) \n kiln_add_library(net ${layers})" "give TARGETS when cross-compiling")
