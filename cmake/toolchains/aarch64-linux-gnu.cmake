# Cross-compiling for 64-bit ARM with Linux, with the compilers that Debian and Ubuntu call crossbuild-essential-arm64. Programs
# run here under qemu-user where that is installed (qemu-user or qemu-user-static).
#
#     cmake -S app -B app/build-arm64 -DCMAKE_TOOLCHAIN_FILE=.../aarch64-linux-gnu.cmake -DCMAKE_PREFIX_PATH=...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# What kiln_add_library() compiles for where a call names nothing: the processor picks when a program runs.
set(KILN_TARGETS arm-64-linux arm-64-linux-dotprod-fp16)

# Libraries are the target's own; packages may be either's, as Kiln's is.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

find_program(KILN_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(KILN_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${KILN_QEMU};-L;/usr/aarch64-linux-gnu")
endif()
