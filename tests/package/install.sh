#!/usr/bin/env bash
# Installs Kiln, moves the installation elsewhere, and builds the examples against it as separate projects, while checkout
# and build tree cannot be reached (where this machine allows to hide them).
#
#     CC=... CXX=... CMAKE=... NINJA=... install.sh CHECKOUT BUILD
set -euo pipefail

checkout=$1 build=$2
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
# A name with a space, to which nothing was installed.
prefix="$temp/kiln 1"

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

install_and_move() {
    "$CMAKE" --install "$build" --prefix "$temp/installed" >"$temp/install.log" || fail "$(cat "$temp/install.log")"
    mv "$temp/installed" "$prefix"
    cp -r "$checkout/examples" "$temp/examples"
}

# Nothing installed may lead back here.
check_contents() {
    local found path file
    for path in "$checkout" "$build"; do
        # Sanitizers tell their own source paths, whatever the compiler is told to call them.
        ! readelf -d "$prefix/bin/kiln" | grep -qE 'lib(a|ub)san' || break
        ! found=$(grep -rlF -- "$path" "$prefix") || fail "these files hold the path $path:"$'\n'"$found"
    done
    readelf -d "$prefix/bin/kiln" | grep -E 'R(UN)?PATH' | grep -qF '[$ORIGIN/../lib/kiln]' ||
        fail "bin/kiln does not look for libHalide.so beside itself: $(readelf -d "$prefix/bin/kiln")"
    for file in share/doc/kiln/LICENSE share/doc/kiln/THIRD_PARTY_NOTICES.md; do
        [[ -s $prefix/$file ]] || fail "$file is missing"
    done
}

# Debian's own CMake where it is there (an older one is the harder test), else the one that built Kiln, out of the checkout.
find_tools() {
    cmake=/usr/bin/cmake
    [[ -x $cmake ]] || cmake=$CMAKE
    if [[ $cmake == "$checkout"/* ]]; then
        cp -r "$(dirname "$cmake")/.." "$temp/cmake"
        cmake=$temp/cmake/bin/cmake
    fi
    cp "$NINJA" "$temp/ninja"
}

# What a user does. Runs in a shell of its own, with nothing but what is exported.
use_installation() {
    set -euo pipefail
    [[ -z ${hidden:-} ]] || [[ ! -e $checkout/CMakeLists.txt && ! -e $build/CMakeCache.txt ]] || fail "the checkout is not hidden"
    "$prefix/bin/kiln" --version
    ldd "$prefix/bin/kiln" | grep -F libHalide.so | grep -qF "kiln 1/bin/../lib/kiln/" || fail "another libHalide.so is found"

    # Compiled parts of programs that are kept are those of the same sources, byte for byte.
    "$prefix/bin/kiln" verify "$temp/examples/minimal/layers.toml"

    # The checksums are what the inputs give by the operators' definitions.
    use_example minimal minimal 114089 edges_test edges_bench
    "$temp/minimal/edges_test"
    use_example c minimal_c -173
    use_example generic generic 186828
    check_rebuilding
}

# Builds an example and the targets given as a project of its own; its program must print the checksum.
use_example() {
    local folder=$temp/$1 program=$2 checksum=$3 said
    shift 3
    "$cmake" -S "$temp/examples/${folder##*/}" -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$temp/ninja" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix"
    "$cmake" --build "$folder" --target all "$@"
    said=$("$folder/$program")
    printf '%s\n' "$said"
    [[ $said == *"checksum: $checksum"* ]] || fail "$program should print the checksum $checksum"
}

# A changed layers file makes the library anew; nothing changed makes nothing.
check_rebuilding() {
    local said
    said=$("$cmake" --build "$temp/minimal")
    [[ $said != *edges* ]] || fail "a second build is not idle: $said"
    printf '\n# changed\n' >>"$temp/examples/minimal/layers.toml"
    said=$("$cmake" --build "$temp/minimal")
    [[ $said == *"Compiling the kernels of edges"* ]] || fail "a changed layers file makes no new library: $said"
}

# Runs use_installation where the checkout and the build tree are covered by empty folders, if that is allowed here.
run_hidden() {
    local cover='mount -t tmpfs none "$checkout"; [[ ! -d $build ]] || mount -t tmpfs none "$build"' flags
    for flags in -m -rm; do
        if unshare "$flags" bash -c "$cover" 2>/dev/null; then
            hidden=yes unshare "$flags" bash -c "$cover; cd /; use_installation"
            return
        fi
    done
    echo "install.sh: mount namespaces are not allowed here: the checkout stays in reach"
    (cd / && bash -c use_installation)
}

install_and_move
check_contents
find_tools
export checkout build temp prefix cmake
export -f fail use_installation use_example check_rebuilding
run_hidden
