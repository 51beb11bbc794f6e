# Cross-compiling for 64-bit RISC-V with V and Linux, with the compilers that Debian and Ubuntu call crossbuild-essential-riscv64. Programs
# run here under qemu-user where that is installed (qemu-user or qemu-user-static).
#
#     cmake -S app -B app/build-riscv64 -DCMAKE_TOOLCHAIN_FILE=.../riscv64-linux-gnu.cmake -DCMAKE_PREFIX_PATH=...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)

# What kiln_add_library() compiles for where a call names nothing.
set(KILN_TARGETS riscv-64-linux)

# Libraries are the target's own; packages may be either's, as Kiln's is.
set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

find_program(KILN_QEMU NAMES qemu-riscv64 qemu-riscv64-static)
if(KILN_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${KILN_QEMU};-cpu;rv64,v=true,vlen=128,vext_spec=v1.0;-L;/usr/riscv64-linux-gnu")
endif()
