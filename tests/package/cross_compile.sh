#!/usr/bin/env bash
# Builds the examples for ARM or RISC-V against an installation on this machine, as users cross-compile: with the toolchain
# files that come with Kiln. Runs them under qemu-user, and the one for ARM without an operating system under qemu-system.
#
#     CMAKE=... NINJA=... cross_compile.sh BUILD arm|riscv
set -euo pipefail

build=$1 architecture=$2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
prefix=$temp/kiln
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples" && pwd)

fail() {
    printf 'cross_compile.sh: %s\n' "$*" >&2
    exit 1
}

# configure EXAMPLE TOOLCHAIN [OPTION]...
configure() {
    local example=$1 toolchain=$2
    shift 2
    env -u CC -u CXX "$CMAKE" -S "$examples/$example" -B "$temp/$example" -G Ninja -DCMAKE_MAKE_PROGRAM="$NINJA" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_TOOLCHAIN_FILE="$toolchain" "$@"
}

# says EXAMPLE TEXT COMMAND...: the command's output must hold the text.
says() {
    local example=$1 text=$2 said
    shift 2
    said=$("$@")
    printf '%s\n' "$said"
    [[ $said == *"$text"* ]] || fail "$example should print $text"
}

"$CMAKE" --install "$build" --prefix "$prefix" >"$temp/install.log" || fail "$(<"$temp/install.log")"

# build_examples TOOLCHAIN ELF_MACHINE NAME EMULATOR...: the checksums are what the same programs print on x86, and what the
# inputs give by the operators' definitions.
build_examples() {
    local toolchain=$prefix/lib/cmake/Kiln/toolchains/$1.cmake machine=$2 name=$3 example program checksum file
    shift 3
    while read -r example program checksum; do
        configure "$example" "$toolchain" -DCMAKE_BUILD_TYPE=Release
        "$CMAKE" --build "$temp/$example"
        file=$temp/$example/$program
        [[ $(od -An -tu2 -j18 -N2 "$file") -eq $machine ]] || fail "$program is no program for $name"
        says "$example" "checksum: $checksum" "$@" "$file" <&-
    done <<'END'
minimal minimal 114089
c minimal_c -173
generic generic 186828
END
    "$CMAKE" --build "$temp/minimal" --target edges_test
}

if [[ $architecture == riscv ]]; then
    emulator=(qemu-riscv64 -cpu rv64,v=true,vlen=128,vext_spec=v1.0 -L /usr/riscv64-linux-gnu)
    build_examples riscv64-linux-gnu 243 RISC-V "${emulator[@]}"
    says minimal "1 checks, 0 failed, 0 skipped" "${emulator[@]}" "$temp/minimal/edges_test"
    exit
fi
build_examples aarch64-linux-gnu 183 AArch64 qemu-aarch64 -L /usr/aarch64-linux-gnu
# Without dot products and float16 arithmetic, as on the first processors.
says minimal "checksum: 114089" qemu-aarch64 -cpu cortex-a57 -L /usr/aarch64-linux-gnu "$temp/minimal/minimal"
# Where the processor has dot products the library's second kernel can be checked too.
says minimal "2 checks, 0 failed, 0 skipped" qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu "$temp/minimal/edges_test"
says minimal "1 checks, 0 failed, 1 skipped" qemu-aarch64 -cpu cortex-a57 -L /usr/aarch64-linux-gnu "$temp/minimal/edges_test"

configure baremetal "$examples/baremetal/aarch64-none.cmake" -DCMAKE_BUILD_TYPE=MinSizeRel
"$CMAKE" --build "$temp/baremetal"
said=$("$CMAKE" --build "$temp/baremetal" --target run)
printf '%s\n' "$said"
[[ $said == *"code: 0"*"checksum: 67478"* ]] || fail "baremetal should print code: 0 and checksum: 67478"
stack=$(sed -n 's/^bytes of stack: \([0-9]*\).*/\1/p' <<<"$said")
((stack > 0 && stack <= 8192)) || fail "baremetal takes $stack bytes of stack; at most 8192 were promised"
aarch64-linux-gnu-size "$temp/baremetal/baremetal"
undefined=$(aarch64-linux-gnu-nm -u "$temp/baremetal/baremetal")
[[ -z $undefined ]] || fail "baremetal leaves undefined: $undefined"
