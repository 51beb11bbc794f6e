# kiln_add_library(): convolutions compiled ahead of time, as a CMake target.
#
#   kiln_add_library(NAME LAYERS file | MODEL file
#                    [TARGETS target...] [DECISIONS file] [OPTIMIZE speed|size] [ACCURACY normal|strict|fast]
#                    [SHAPES input=1x3x224x224...]
#                    [LAYER name...] [SKIP_UNSUPPORTED] [EMBED_WEIGHTS | EMBED_RAW_WEIGHTS] [DEPENDS file...])
#
# NAME, a C identifier, becomes a static library target. What links it can include "NAME.h", and gets the Kiln runtime too.
#
#   LAYERS         a layers file (TOML)
#   MODEL          an ONNX model; needs a python3 with the package onnx when building: the one that the variable
#                  KILN_PYTHON names, of CMake or of the environment, else python3
#   TARGETS        what to compile for (`kiln targets` lists them): all of one operating system and architecture, the
#                  processor picks at run time. Default: the variable KILN_TARGETS, which toolchain files may set, else what
#                  the layers file says, else this machine
#   DECISIONS      the algorithms and schedules to use, as `kiln tune` writes them
#   OPTIMIZE       what kernels are chosen for, of the layers that do not say: speed, or size, the fewest bytes of packed
#                  weights and code. Default: speed
#   ACCURACY       how kernels may round, of the layers that do not say: strict keeps to plain sums of products, fast lets
#                  products of float16 be summed in float16. Default: normal
#   SHAPES         sizes for inputs whose shapes the model leaves open
#   LAYER          only these layers, by their names or their ONNX nodes'. Default: all
#   SKIP_UNSUPPORTED  leave out, and tell, layers that Kiln cannot take and convolutions of a MODEL that it cannot make
#                  sense of. Default: they end the build
#   EMBED_WEIGHTS  pack the weights now, into the library, and put the bias beside them: a layer takes x and y, and what
#                  else its model computes
#   EMBED_RAW_WEIGHTS  the same as the model has them, which may be several times smaller: NAME_pack_all() packs them
#                  into NAME_PACKED_BYTES (in capitals) of the program's memory when it starts
#   DEPENDS        other files that are read, such as a model's external data; the weights that a layers file names are
#                  found without it
#
# Two programs come with it, built on request: NAME_test checks every kernel against a float64 reference, NAME_bench times
# them. Where testing is enabled before the call, NAME_test is a test, and part of the target `all`.
#
# lib<NAME>.a, NAME.h and the manifest NAME.json lie in kiln/NAME under the current binary directory.
cmake_minimum_required(VERSION 3.22)

function(kiln_add_library NAME)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "EMBED_WEIGHTS;EMBED_RAW_WEIGHTS;SKIP_UNSUPPORTED" "LAYERS;MODEL;DECISIONS;OPTIMIZE;ACCURACY"
                          "TARGETS;SHAPES;LAYER;DEPENDS")
    if(NOT ARG_TARGETS)
        set(ARG_TARGETS ${KILN_TARGETS})
    endif()
    if((ARG_LAYERS AND ARG_MODEL) OR NOT (ARG_LAYERS OR ARG_MODEL))
        message(FATAL_ERROR "kiln_add_library(${NAME}): give either LAYERS or MODEL")
    endif()
    _kiln_check_arguments(kiln_add_library)
    _kiln_common_options("${ARG_LAYERS}${ARG_MODEL}")

    if(ARG_LAYERS)
        _kiln_weights_of("${spec}" weights)
        list(APPEND inputs ${weights})
    endif()
    foreach(layer IN LISTS ARG_LAYER)
        list(APPEND options --layer ${layer})
    endforeach()
    if(ARG_SKIP_UNSUPPORTED)
        list(APPEND options --skip-unsupported)
    endif()
    if(ARG_EMBED_WEIGHTS)
        list(APPEND options --embed-weights)
    elseif(ARG_EMBED_RAW_WEIGHTS)
        list(APPEND options --embed-weights=raw)
    endif()
    # What NAME_test verifies the layers with: their own weights, where they have any.
    list(APPEND options --save-weights "${folder}/weights")
    _kiln_add_target("Compiling the kernels of ${NAME}")
    if(ARG_TARGETS MATCHES "^(cuda|opencl|.*-(cuda|opencl).*)$")
        set(gpu ON)
        set_property(TARGET ${NAME} APPEND PROPERTY INTERFACE_LINK_LIBRARIES Kiln::gpu)
    endif()

    if(NOT TARGET kiln_harness)
        return()  # there is no operating system to run these programs on
    endif()
    _kiln_add_program(${NAME}_test verify)
    _kiln_add_program(${NAME}_bench bench)
    _kiln_test_program(${NAME}_test)
endfunction()

# Stops with a message where the arguments of `command`, parsed into the caller's ARG_..., are wrong.
macro(_kiln_check_arguments command)
    if(NOT NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
        message(FATAL_ERROR "${command}: the name \"${NAME}\" is not a C identifier")
    endif()
    if(ARG_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "${command}(${NAME}): unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
    endif()
    if(ARG_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "${command}(${NAME}): no value for ${ARG_KEYWORDS_MISSING_VALUES}")
    endif()
    foreach(file IN ITEMS ${ARG_LAYERS} ${ARG_MODEL} ${ARG_DECISIONS})
        get_filename_component(file "${file}" ABSOLUTE)
        if(NOT EXISTS "${file}")
            message(FATAL_ERROR "${command}(${NAME}): there is no file ${file}")
        endif()
    endforeach()
    if(ARG_EMBED_WEIGHTS AND ARG_EMBED_RAW_WEIGHTS)
        message(FATAL_ERROR "${command}(${NAME}): give either EMBED_WEIGHTS or EMBED_RAW_WEIGHTS")
    endif()
    if(ARG_OPTIMIZE AND NOT ARG_OPTIMIZE MATCHES "^(speed|size)$")
        message(FATAL_ERROR "${command}(${NAME}): OPTIMIZE is ${ARG_OPTIMIZE}: it may be speed or size")
    endif()
    if(ARG_ACCURACY AND NOT ARG_ACCURACY MATCHES "^(normal|strict|fast)$")
        message(FATAL_ERROR "${command}(${NAME}): ACCURACY is ${ARG_ACCURACY}: it may be normal, strict or fast")
    endif()
    if(CMAKE_CROSSCOMPILING AND NOT ARG_TARGETS)
        message(FATAL_ERROR "${command}(${NAME}): give TARGETS when cross-compiling: without them kiln compiles for the "
                            "machine it runs on")
    endif()
endmacro()

# Sets, for the caller, `folder`, where all lies, `spec`, what is compiled, the `inputs` that are read, the `options` of
# `kiln compile` that layers and networks share, and its `environment`.
macro(_kiln_common_options file)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/kiln/${NAME}")
    get_filename_component(spec "${file}" ABSOLUTE)
    set(inputs "${spec}")
    set(options --name ${NAME})
    if(ARG_DECISIONS)
        get_filename_component(decisions "${ARG_DECISIONS}" ABSOLUTE)
        list(APPEND inputs "${decisions}")
        list(APPEND options --decisions "${decisions}")
    endif()
    if(ARG_OPTIMIZE)
        list(APPEND options --optimize ${ARG_OPTIMIZE})
    endif()
    if(ARG_ACCURACY)
        list(APPEND options --accuracy ${ARG_ACCURACY})
    endif()
    foreach(input IN LISTS ARG_DEPENDS)
        get_filename_component(input "${input}" ABSOLUTE)
        list(APPEND inputs "${input}")
    endforeach()
    foreach(target IN LISTS ARG_TARGETS)
        list(APPEND options --target ${target})
    endforeach()
    foreach(shape IN LISTS ARG_SHAPES)
        list(APPEND options --shape ${shape})
    endforeach()
    set(environment "")
    if(KILN_PYTHON)
        set(environment "${CMAKE_COMMAND}" -E env "KILN_PYTHON=${KILN_PYTHON}")
    endif()
endmacro()

# Adds the library NAME of the caller's `spec`, which `kiln compile` makes by the caller's `options`.
macro(_kiln_add_target comment)
    set(outputs "${folder}/lib${NAME}.a" "${folder}/${NAME}.h" "${folder}/${NAME}.json")
    add_custom_command(
        OUTPUT ${outputs}
        COMMAND ${environment} "$<TARGET_FILE:Kiln::kiln>" compile "${spec}" -o "${folder}" ${options}
        DEPENDS ${inputs} "$<TARGET_FILE:Kiln::kiln>"
        COMMENT "${comment}"
        USES_TERMINAL  # shows the progress, and leaves the processors to one such command at a time
        VERBATIM)
    add_custom_target(${NAME}_compile DEPENDS ${outputs})

    # An imported target's include folder has to exist when CMake generates.
    file(MAKE_DIRECTORY "${folder}")
    add_library(${NAME} STATIC IMPORTED GLOBAL)
    set_target_properties(
        ${NAME} PROPERTIES IMPORTED_LOCATION "${folder}/lib${NAME}.a" INTERFACE_INCLUDE_DIRECTORIES "${folder}"
                           INTERFACE_LINK_LIBRARIES Kiln::runtime)
    add_dependencies(${NAME} ${NAME}_compile)
endmacro()

# Sets `result` to the files that a layers file names as weights; CMake runs again when the layers file changes.
function(_kiln_weights_of layers result)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${layers}")
    get_filename_component(folder "${layers}" DIRECTORY)
    file(STRINGS "${layers}" lines REGEX "^[ \t]*(weights|bias_values)[ \t]*=[ \t]*[\"']")
    set(files "")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^[^\"']*[\"']([^\"']*)[\"'].*$" "\\1" file "${line}")
        get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${folder}")
        list(APPEND files "${file}")
    endforeach()
    list(REMOVE_DUPLICATES files)
    set(${result} "${files}" PARENT_SCOPE)
endfunction()

# Makes a program one of the project's tests, where it has any; else it is built when asked for.
function(_kiln_test_program program)
    if(CMAKE_TESTING_ENABLED)
        set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL FALSE)
        add_test(NAME ${program} COMMAND ${program})
    endif()
endfunction()

# A program that verifies or times the library NAME: the harness around it (kiln_add_harness).
function(_kiln_add_program program command)
    get_target_property(main kiln_harness KILN_MAIN)
    add_executable(${program} EXCLUDE_FROM_ALL "${main}")
    target_compile_definitions(${program} PRIVATE KILN_LIBRARY_HEADER="${NAME}.h" KILN_LIBRARY=${NAME}_library
                                                  KILN_HARNESS_COMMAND=${command}
                                                  KILN_HARNESS_WEIGHTS="${folder}/weights")
    if(gpu)
        target_compile_definitions(${program} PRIVATE KILN_HARNESS_GPU)
    endif()
    target_link_libraries(${program} PRIVATE kiln_harness ${NAME})
endfunction()

# Adds kiln_harness: what every NAME_test and NAME_bench consists of, apart from the library and a main.cpp. `root` holds
# tools/harness, tools/network_program and tests/reference.
function(kiln_add_harness root)
    find_package(Threads REQUIRED)
    set(harness "${root}/tools/harness")
    set(network "${root}/tools/network_program")
    set(folders "${harness}" "${harness}/machine" "${harness}/tensors" "${network}" "${root}/tests/reference")
    list(TRANSFORM folders APPEND "/*.cpp" OUTPUT_VARIABLE patterns)
    file(GLOB sources ${patterns})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folders})  # sources that come and go
    list(REMOVE_ITEM sources "${harness}/main.cpp" "${network}/main.cpp")
    add_library(kiln_harness STATIC EXCLUDE_FROM_ALL ${sources})
    target_include_directories(kiln_harness PUBLIC "${root}/tools" "${root}/tests")
    target_link_libraries(kiln_harness PUBLIC Kiln::runtime Threads::Threads)
    target_compile_features(kiln_harness PUBLIC cxx_std_17)
    # The reference is loops upon loops: whatever the build type, it is worth making fast, and nothing else here is.
    target_compile_options(kiln_harness PRIVATE -Os -ffunction-sections -fdata-sections)
    target_link_options(kiln_harness INTERFACE LINKER:--gc-sections)
    set_source_files_properties("${root}/tests/reference/reference.cpp" PROPERTIES COMPILE_OPTIONS -O2)
    set_target_properties(kiln_harness PROPERTIES KILN_MAIN "${harness}/main.cpp" KILN_NETWORK_MAIN "${network}/main.cpp")
endfunction()

include("${CMAKE_CURRENT_LIST_DIR}/KilnAddNetwork.cmake")
