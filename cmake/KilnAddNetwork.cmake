# kiln_add_network(): a whole ONNX model compiled ahead of time, as a CMake target.
#
#   kiln_add_network(NAME MODEL file
#                    [TARGETS target...] [DECISIONS file] [OPTIMIZE speed|size] [ACCURACY normal|strict|fast]
#                    [SHAPES input=1x3x224x224...] [SIZES width=160,320,640...]
#                    [OUTPUT_NAMES name...] [EMBED_RAW_WEIGHTS] [CALLBACKS] [DEPENDS file...])
#
# NAME, a C identifier, becomes a static library target. What links it can include "NAME.h", where NAME_run() computes the
# model's outputs from its inputs, and gets the Kiln runtime too. Its weights are part of the library.
#
#   MODEL          an ONNX model; needs a python3 with the package onnx when building, and with emx-onnx-cgen where the model
#                  has nodes that Kiln has no kernels for: the one that the variable KILN_PYTHON names, of CMake or of the
#                  environment, else python3
#   TARGETS        what to compile for (`kiln targets` lists them): all of one operating system and architecture, the
#                  processor picks at run time. Default: the variable KILN_TARGETS, which toolchain files may set, else this
#                  machine
#   DECISIONS      the algorithms and schedules to use, as `kiln tune` writes them
#   OPTIMIZE       what the kernels of layers are chosen for: speed, or size, the fewest bytes of packed weights and code.
#                  Default: speed
#   ACCURACY       how kernels may round, of the layers that do not say: strict keeps to plain sums of products, fast lets
#                  products of float16 be summed in float16. Default: normal
#   SHAPES         the shapes of inputs that the model leaves open
#   SIZES          the same for dimensions, by their names or as input.axis; each may have several values, and then the size is
#                  an argument of NAME_run(), which has a network for each combination of the values
#   OUTPUT_NAMES   values of the model that are outputs in place of its own, such as those that a NonMaxSuppression reads
#   EMBED_RAW_WEIGHTS  the weights of convolutions as the model has them, which may be several times smaller:
#                  NAME_pack_all() packs them into NAME_PACKED_BYTES (in capitals) of the program's memory when it starts
#   CALLBACKS      let nodes that Kiln has no kernels for be functions of the program's where emx-onnx-cgen is not
#                  installed. Default: they end the build
#   DEPENDS        other files that are read, such as the model's external data
#
# Two programs come with it, built on request: NAME_test compares every output with onnxruntime's or, where KILN_PYTHON has
# no onnxruntime, those of onnx's reference evaluator, for random inputs that were drawn when the library was built; NAME_bench
# times NAME_run(). Where testing is enabled before the call, NAME_test is a test, and part of the target `all`.
#
# lib<NAME>.a, NAME.h and the manifest NAME.json lie in kiln/NAME under the current binary directory.
cmake_minimum_required(VERSION 3.22)

function(kiln_add_network NAME)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "EMBED_RAW_WEIGHTS;CALLBACKS" "MODEL;DECISIONS;OPTIMIZE;ACCURACY" "TARGETS;SHAPES;SIZES;OUTPUT_NAMES;DEPENDS")
    if(NOT ARG_TARGETS)
        set(ARG_TARGETS ${KILN_TARGETS})
    endif()
    if(NOT ARG_MODEL)
        message(FATAL_ERROR "kiln_add_network(${NAME}): give a MODEL")
    endif()
    _kiln_check_arguments(kiln_add_network)
    _kiln_common_options("${ARG_MODEL}")
    foreach(name IN LISTS ARG_OUTPUT_NAMES)
        list(APPEND options --output-name "${name}")
    endforeach()
    foreach(size IN LISTS ARG_SIZES)
        list(APPEND options --size "${size}")
    endforeach()
    if(ARG_EMBED_RAW_WEIGHTS)
        list(APPEND options --embed-weights=raw)
    endif()
    if(ARG_CALLBACKS)
        list(APPEND options --callbacks)
    endif()
    _kiln_c_compiler(compiler)
    list(APPEND options --network --cxx "${compiler}")
    if(TARGET kiln_harness)
        list(APPEND options --save-weights "${folder}/values")
    endif()
    _kiln_add_target("Compiling the network ${NAME}")
    if(NOT CMAKE_SYSTEM_NAME STREQUAL "Generic")
        set_property(TARGET ${NAME} APPEND PROPERTY INTERFACE_LINK_LIBRARIES m)  # C of emx-onnx-cgen's calls expf and the like
    endif()

    if(NOT TARGET kiln_harness)
        return()  # there is no operating system to run these programs on
    endif()
    _kiln_add_network_program(${NAME}_test verify)
    _kiln_add_network_program(${NAME}_bench time)
    _kiln_test_program(${NAME}_test)
endfunction()

# Sets `result` to the command of this project's compiler, which compiles C where nodes become C: the one of C where the
# project has that language, else the one of C++, whose driver compiles both.
function(_kiln_c_compiler result)
    set(language CXX)
    if(CMAKE_C_COMPILER_LOADED)
        set(language C)
    endif()
    set(command "${CMAKE_${language}_COMPILER}")
    if(CMAKE_${language}_COMPILER_ARG1)
        string(APPEND command " ${CMAKE_${language}_COMPILER_ARG1}")
    endif()
    if(CMAKE_${language}_COMPILER_TARGET)
        string(APPEND command " ${CMAKE_${language}_COMPILE_OPTIONS_TARGET}${CMAKE_${language}_COMPILER_TARGET}")
    endif()
    if(CMAKE_SYSROOT)
        string(APPEND command " ${CMAKE_${language}_COMPILE_OPTIONS_SYSROOT}${CMAKE_SYSROOT}")
    endif()
    if(language STREQUAL C)
        string(APPEND command " ${CMAKE_C_FLAGS}")
    endif()
    string(STRIP "${command}" command)
    set(${result} "${command}" PARENT_SCOPE)
endfunction()

# A program that verifies or times the network NAME.
function(_kiln_add_network_program program command)
    get_target_property(main kiln_harness KILN_NETWORK_MAIN)
    add_executable(${program} EXCLUDE_FROM_ALL "${main}")
    target_compile_definitions(${program} PRIVATE KILN_LIBRARY_HEADER="${NAME}.h" KILN_NETWORK=${NAME}_network_at
                                                  KILN_NETWORK_COMMAND="${command}"
                                                  KILN_NETWORK_VALUES="${folder}/values")
    target_link_libraries(${program} PRIVATE kiln_harness ${NAME})
endfunction()
