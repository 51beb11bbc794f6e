#!/usr/bin/env bash
# The wheel in a bare root: from pip install to running programs, and away again.
. "$(dirname "$0")/common.sh"

step 'python3 -m venv' python3 -m venv /tmp/venv
export PATH=/tmp/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 CMAKE_GENERATOR=Ninja
wheel=$(echo /dist/kiln_conv-*.whl)
step "pip install $(basename "$wheel")" pip install "$wheel"
if ! kiln --version >/dev/null 2>&1; then  # Python 3.14, for which Halide has no wheel: the command says what to do
    hint=$(kiln --version 2>&1 | grep -o 'pip install .*')
    step "$hint" $hint
fi
prints 'kiln ' kiln --version
step 'kiln compile layers.toml' kiln compile /src/app/layers.toml -o /tmp/first --name net
step 'pip install cmake ninja' pip install cmake ninja
step 'cmake, build, run a program' bash -ec 'cmake -S /src/app -B /tmp/first/app -G Ninja -DCMAKE_PREFIX_PATH="$(kiln --cmake-dir)"
    cmake --build /tmp/first/app --target app && /tmp/first/app/app | grep -F "y[0] = 30"'
printf '%6.1f s  a program runs, from nothing but python3 and g++\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')"

step 'pip install kiln-conv[onnx]' pip install "$wheel[onnx]"
step 'write model.onnx' python3 /src/write_model.py /tmp/model.onnx
step 'kiln compile model.onnx' kiln compile /tmp/model.onnx -o /tmp/model
step 'pip install kiln-conv[bench]' pip install "$wheel[bench]"
step 'kiln verify model.onnx --network, beside onnxruntime' kiln verify /tmp/model.onnx --network
step 'the Python snippet of the README' prints '(1, 32, 56, 56) 30.0' bash -c 'cd /src && python3 try.py'
step 'the tests of the Python package' python3 /src/tests/package_test.py
use_kiln "$(kiln --cmake-dir)"

step 'pip install a project that builds an extension with kiln_add_library' pip install --find-links /dist /src/extension
step 'call it' prints '2.0' python3 -c "
import array, upscaler
pixels = array.array('f', upscaler.twice(array.array('f', [2.0] * 16).tobytes()))
assert len(pixels) == 64; print(pixels[0])"

step 'another Halide is told of' bash -c "
site=\$(python3 -c 'import kiln, os; print(os.path.dirname(os.path.dirname(kiln.__file__)))')
mv \$site/halide-21.0.0.dist-info /tmp/venv/kept
kiln --version 2>&1 | grep -E 'the package halide is missing|Halide 21.0.0 has no wheel for' | grep -F 'halide==21.0.0'
mv /tmp/venv/kept \$site/halide-21.0.0.dist-info"
step 'pip uninstall' pip uninstall -y kiln-conv
left /tmp/venv/bin/kiln /tmp/venv/lib/python3*/site-packages/kiln
rm -rf /tmp/venv /tmp/first /tmp/model
printf '%6.1f s  the wheel is well\n' "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')"
