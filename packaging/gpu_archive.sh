#!/usr/bin/env bash
# Packs what a machine with a GPU needs to test and to time kernels there, with no network. ./dev gpu-archive runs it.
#
#     gpu_archive.sh CHECKOUT [ARCHIVE]        dist/kiln-gpu.tar unless said
#
# In it are the checkout's sources, kiln as it is installed, Halide's library (by far the largest part, compressed by itself and
# kept in build/ for the next archive) and the tests' programs. It needs what `kiln verify` needs, a C++ compiler, and Python with
# numpy and onnx. There:
#
#     tar xf kiln-gpu.tar && kiln-gpu/run              unpacks the rest once, runs the tests, then the bench
#     kiln-gpu/run tests [ARGS] | bench [ARGS]         those alone: arguments of tests/gpu/device.py, of bench/gpu.py
#     kiln-gpu/run COMMAND...                          anything else, with kiln in PATH, in the sources' folder
#
# What they find is left in kiln-gpu/results.
set -euo pipefail

checkout=$1 archive=${2:-$1/dist/kiln-gpu.tar}
build=$checkout/build work=$checkout/build/gpu_archive
programs=(kiln_gpu_device_test_cuda kiln_gpu_device_test_opencl kiln_gpu_block_cuda kiln_gpu_opencl_test)

say() { printf 'gpu-archive: %s\n' "$*" >&2; }

rm -rf "$work/tree" "$work/kiln-gpu"
mkdir -p "$work/tree/build/bin" "$work/kiln-gpu" "$(dirname "$archive")"
git -C "$checkout" ls-files -z --cached --others --exclude-standard |
    tar -C "$checkout" --null --ignore-failed-read -T - -cf - | tar -C "$work/tree" -xf -
cmake --install "$build" --prefix "$work/tree/build" --component kiln --strip >/dev/null
for program in "${programs[@]}"; do
    strip -o "$work/tree/build/bin/$program" "$build/bin/$program"
done

# Libraries that kiln finds beside itself, each compressed once.
for library in "$work"/tree/build/lib/kiln/*.so*; do
    [[ -e $library ]] || continue
    kept=$work/$(sha256sum "$library" | cut -c 1-16).xz
    if [[ ! -f $kept ]]; then
        say "compressing $(basename "$library"), once"
        xz -9e -c "$library" >"$kept.part"
        mv "$kept.part" "$kept"
    fi
    ln "$kept" "$work/kiln-gpu/$(basename "$library").xz"
    rm "$library"
done
tar -C "$work/tree" -cf - . | xz -6 -T0 >"$work/kiln-gpu/tree.tar.xz"

cat >"$work/kiln-gpu/run" <<'END'
#!/usr/bin/env bash
# Runs the tests and the bench (without arguments), `tests` or `bench` alone with arguments of theirs, or any other command.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
tree=$here/tree results=$here/results
mkdir -p "$results"
if [[ ! -e $here/unpacked ]]; then
    mkdir -p "$tree"
    xz -dc "$here/tree.tar.xz" | tar -C "$tree" -xf - &
    mkdir -p "$tree/build/lib/kiln"
    for library in "$here"/*.so*.xz; do
        [[ ! -e $library ]] || xz -dc "$library" >"$tree/build/lib/kiln/$(basename "$library" .xz)"
    done
    wait $!
    touch "$here/unpacked"
fi
export KILN=$tree/build/bin/kiln PATH=$tree/build/bin:$PATH PYTHONUNBUFFERED=1
cd "$tree"
tests() { python3 tests/gpu/device.py --logs "$results/logs" "$@" 2>&1 | tee "$results/tests.txt"; }
bench() { python3 bench/gpu.py --json "$results/bench.json" "$@" 2>&1 | tee "$results/bench.txt"; }
case ${1:-all} in
    all)
        status=0
        tests || status=$?
        ((status != 77)) || exit 77 # there is no GPU
        bench || status=$?
        exit "$status"
        ;;
    tests | bench) "$@" ;;
    *) exec "$@" ;;
esac
END
chmod +x "$work/kiln-gpu/run"
tar -C "$work" -cf "$archive" kiln-gpu
say "$archive: $(du -h "$archive" | cut -f 1)"
