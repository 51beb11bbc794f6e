#!/usr/bin/env bash
# Makes every package of Kiln, and tries each where it is installed. ./dev package runs it.
#
#     package.sh CHECKOUT [wheel] [sdist] [debs] [archive] [conan]      all, unless some are named
#
# Packages go to dist/. Those that are installed are tried in bare roots (bare_root.sh, as root): of Debian 12 and, where there
# is Ubuntu's keyring, of Ubuntu 24.04, or of the suites that KILN_SUITES names; they are made in KILN_ROOTS, else in
# build/package. The wheel is built twice, in two folders, and must be the same bytes.
# KILN_KEEP_BUILD keeps the wheel's build folders, so that only what changed is compiled again.
set -euo pipefail

checkout=$1
shift
kinds=("$@")
((${#kinds[@]})) || kinds=(wheel sdist debs archive conan)
dist=$checkout/dist work=$checkout/build/package venv=$checkout/packaging/.venv
roots=${KILN_ROOTS:-$work}
SOURCE_DATE_EPOCH=$(git -C "$checkout" log -1 --format=%ct 2>/dev/null || stat -c %Y "$checkout/CMakeLists.txt")
export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1
version=$(sed -n 's/^project(Kiln VERSION \([0-9.]*\).*/\1/p' "$checkout/CMakeLists.txt")

say() { printf 'package: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}
wanted() { [[ " ${kinds[*]} " == *" $1 "* ]]; }

# quietly COMMAND...: shows what it says where it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || {
        tail -n 60 "$work/log" >&2
        die "failed: $*"
    }
}

make_venv() {
    local stamp=$venv/.ready
    [[ -f $stamp && $(<"$stamp") == "$(<"$checkout/packaging/requirements.txt")" ]] && return
    say "installing packaging/requirements.txt into packaging/.venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    quietly "$venv/bin/pip" install -r "$checkout/packaging/requirements.txt"
    cp "$checkout/packaging/requirements.txt" "$stamp"
}

# One wheel, from the sdist unpacked in a folder of its own, into FOLDER.
build_wheel() {
    local folder=$1
    mkdir -p "$folder"
    find "$folder" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +  # sources that have moved since are no sources
    tar -C "$folder" --strip-components=1 -xzf "$dist/kiln_conv-$version.tar.gz"
    rm -rf "$folder/wheel"
    quietly env PATH="$venv/bin:$PATH" "$venv/bin/python" -m build --wheel --no-isolation -o "$folder/wheel" \
        -C build-dir="$folder/build" "$folder"
    # It is linked with Halide's library, which its own wheel brings; what else it needs says how old a system may be.
    quietly env PATH="$venv/bin:$PATH" "$venv/bin/auditwheel" repair --exclude 'libHalide.so*' -w "$folder/repaired" \
        "$folder"/wheel/*.whl
}

make_sdist() {
    quietly env PATH="$venv/bin:$PATH" "$venv/bin/python" -m build --sdist --no-isolation -o "$dist" "$checkout"
}

make_wheel() {
    local first second
    [[ ${KILN_KEEP_BUILD:-} ]] || rm -rf "$work/wheel 1" "$work/wheel2"
    rm -rf "$work/wheel 1/repaired" "$work/wheel2/repaired"
    say "building the wheel, twice"
    build_wheel "$work/wheel 1"
    CCACHE_RECACHE=1 build_wheel "$work/wheel2"  # compiled again, not taken from what the first left in a cache
    first=$(echo "$work/wheel 1/repaired"/*.whl) second=$(echo "$work/wheel2/repaired"/*.whl)
    cmp "$first" "$second" || die "two builds of the wheel differ: $first and $second"
    say "two builds of the wheel are the same bytes"
    rm -f "$dist"/kiln_conv-*.whl
    cp "$first" "$dist/"
}

# cpack GENERATOR: CPack's packages of build/, as they would be installed.
make_cpack() {
    rm -rf "$work/cpack"
    quietly env PATH="$checkout/.venv/bin:$PATH" cpack --config "$checkout/build/CPackConfig.cmake" -G "$1" -B "$work/cpack"
    cp "$work/cpack"/*."$2" "$dist/"
}

make_conan() {
    say "conan create"
    export CONAN_HOME=$work/conan
    rm -rf "$CONAN_HOME"
    quietly "$venv/bin/conan" profile detect
    quietly env PATH="$venv/bin:$checkout/.venv/bin:$PATH" "$venv/bin/conan" create "$checkout/packaging/conan" \
        -s compiler.cppstd=gnu20 --no-remote -c tools.cmake.cmake_layout:test_folder="$work/conan_test"
    say "conan created kiln/$version, and its test_package ran"
}

# What the tries in the root use: the README's program, the example of a Python extension, tests.
fill_root() {
    rm -rf "$root/src" "$root/dist"
    mkdir -p "$root/src" "$root/dist"
    "$checkout/.venv/bin/python" "$checkout/packaging/readme_files.py" "$checkout/README.md" "$root/src"
    cp -r "$root/src/app" "$root/src/app-arm"
    sed -i 's/TARGETS [^)]*/TARGETS arm-64-linux/' "$root/src/app-arm/CMakeLists.txt"
    cp -r "$checkout/examples/python" "$root/src/extension"
    cp -r "$checkout/tests/python" "$root/src/tests"
    cp "$checkout/packaging/tries/write_model.py" "$root/src/"
    cp -r "$checkout/packaging/tries" "$root/tries"
    cp "$dist"/* "$root/dist/"
}

try() {
    say "trying $1 in a bare root of $KILN_SUITE"
    "$checkout/packaging/bare_root.sh" "$root" bash "/tries/$1.sh" | tee "$dist/$1.$KILN_SUITE.transcript"
}

# Sets `suites` to the systems that packages are tried on.
choose_suites() {
    suites=(bookworm)
    if [[ ${KILN_SUITES:-} ]]; then
        read -ra suites <<<"$KILN_SUITES"
    elif [[ -e ${KILN_UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg} ]]; then
        suites+=(noble)
    else
        say "Ubuntu 24.04 is left out: its keyring is not here (bare_root.sh)"
    fi
}

make_root() {
    if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
        die "trying the packages takes root and debootstrap (apt-get install debootstrap); they lie in dist/"
    fi
    "$checkout/packaging/bare_root.sh" "$root" bash -ec 'command -v qemu-aarch64 >/dev/null && exit
        apt-get -q update
        apt-get -q install -y --no-install-recommends g++ python3-dev g++-aarch64-linux-gnu qemu-user' >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "the bare root cannot be made"
    }
    rm -rf "$root/tries"
    fill_root
}

mkdir -p "$dist" "$work"
make_venv
if wanted wheel || wanted sdist; then make_sdist; fi
if wanted wheel; then make_wheel; fi
if wanted debs; then make_cpack DEB deb; fi
if wanted archive; then make_cpack TXZ tar.xz; fi
if wanted conan; then make_conan; fi
ls -l --block-size=1 "$dist" | awk 'NR > 1 && !/transcript/ {printf "package: %9d bytes  %s\n", $5, $9}' >&2
if wanted wheel || wanted debs || wanted archive; then
    choose_suites
    for KILN_SUITE in "${suites[@]}"; do
        export KILN_SUITE
        root=$roots/$KILN_SUITE
        make_root
        for kind in wheel debs archive; do
            if wanted $kind; then try $kind; fi
        done
    done
fi
say "all is well"
