# What the tries of all packages do, in a bare root: /src holds the README's program, /dist the packages.
set -euo pipefail
start=$(date +%s.%N)

# step WORDS COMMAND...: runs a command, and tells when it began. What it says is shown where it fails.
step() {
    local words=$1
    shift
    printf '%6.1f s  %s\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')" "$words"
    "$@" >/tmp/step.log 2>&1 || {
        tail -n 40 /tmp/step.log
        printf 'FAILED: %s\n' "$words"
        exit 1
    }
}

# prints TEXT COMMAND...: the command must print the text.
prints() {
    local text=$1 said
    shift
    said=$("$@" 2>&1) || { printf '%s\nFAILED: %s\n' "$said" "$*"; exit 1; }
    [[ $said == *"$text"* ]] || { printf '%s\nFAILED: %s should print %s\n' "$said" "$*" "$text"; exit 1; }
}

install_debian() {
    step "apt-get install $*" apt-get -q install -y --no-install-recommends "$@"
}

# Compiling, the README's CMake program, its check against the reference, and the same for ARM under qemu. Takes the
# folder of the CMake package.
use_kiln() {
    local folder=$1
    step 'kiln compile layers.toml' kiln compile /src/app/layers.toml -o /tmp/out --name net
    step 'kiln doctor' kiln doctor
    step 'cmake, a program of find_package(Kiln)' cmake -S /src/app -B /tmp/app -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder"
    step 'build it' cmake --build /tmp/app --target app net_test
    step 'run it' prints 'y[0] = 30' /tmp/app/app
    step 'check its kernels' prints '0 failed' /tmp/app/net_test
    step 'cmake for ARM' cmake -S /src/app-arm -B /tmp/app-arm -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$folder" \
        -DCMAKE_TOOLCHAIN_FILE="$folder/toolchains/aarch64-linux-gnu.cmake"
    step 'build it' cmake --build /tmp/app-arm --target app
    step 'run it under qemu' prints 'y[0] = 30' qemu-aarch64 -L /usr/aarch64-linux-gnu /tmp/app-arm/app
}

# left PATH...: fails where one of these is still there.
left() {
    local path
    for path in "$@"; do
        [[ ! -e $path ]] || { echo "FAILED: $path is left"; exit 1; }
    done
}
rm -rf /tmp/out /tmp/app /tmp/app-arm /tmp/venv
