# Kernels for ARM, whose programs run under qemu: ONNX's node cases, random problems, the other tests' files. Values of 8-bit
# problems are compared to the bit, here as on x86.
function(add_arm_test name script environment)
    add_test(NAME kernels_arm_${name} COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARGN})
    set_tests_properties(kernels_arm_${name} PROPERTIES ENVIRONMENT "KILN=$<TARGET_FILE:kiln>;${environment}" TIMEOUT 900)
endfunction()

add_arm_test(node_cases onnx_node_cases.py "KILN_TARGET=arm-64-linux-dotprod-fp16" OnnxNodeCases.test_specialized)
add_arm_test(node_cases_generic onnx_node_cases.py "KILN_TARGET=arm-64-linux" OnnxNodeCases.test_generic)
add_arm_test(random_generic random_problems.py "KILN_TARGET=arm-64-linux;KILN_ENGINE=generic;KILN_RANDOM_COUNT=100")

# What docs/ARM.md tells of inner loops, and that instructions are counted.
add_test(NAME kernels_arm_document COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/cores/document.py" $<TARGET_FILE:kiln> --check)
add_arm_test(instructions arm_instructions.py "CC=${CMAKE_C_COMPILER}")
add_arm_test(features arm_features.py "KILN_CXX=aarch64-linux-gnu-g++")
add_arm_test(half half.py "KILN_TARGET=arm-64-linux-dotprod-fp16")
