"""Conan's recipe: the kiln command, its CMake package and the runtime as source.

    conan create packaging/conan -s compiler.cppstd=gnu20

Kiln is built with headers of fmt, nlohmann-json, toml++ and CLI11, which are the system's (system_requirements installs them
where Conan may), and with Halide's wheel, which pip brings. What is packaged needs none of them: Halide's library lies beside
the command.
"""

import os
import re
import sys

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

HALIDE, PLOTLY = "21.0.0", "7.1.0"
SOURCES = ["CMakeLists.txt", "LICENSE", "THIRD_PARTY_NOTICES.md", "cmake/*", "generators/*", "python/*", "runtime/*", "tools/*",
           "tests/reference/*"]  # fmt: skip


class Kiln(ConanFile):
    name = "kiln"
    license = "Apache-2.0"
    description = "Compiles convolutions ahead of time: layers in, a static library and a header out"
    topics = ("convolution", "compiler", "halide", "onnx", "embedded")
    package_type = "application"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True  # the build has a folder of its own, in which it lays out what will be installed

    def set_version(self):
        lists = os.path.join(self.recipe_folder, "..", "..", "CMakeLists.txt")
        if os.path.exists(lists):
            with open(lists, encoding="utf-8") as file:
                self.version = re.search(r"project\(Kiln VERSION ([0-9.]+)", file.read())[1]

    def export_sources(self):
        checkout = os.path.normpath(os.path.join(self.recipe_folder, "..", ".."))
        for pattern in SOURCES:
            copy(self, pattern, checkout, self.export_sources_folder, excludes=["*/build/*", "*/__pycache__/*", "*.venv*"])

    def system_requirements(self):
        Apt(self).check(["libfmt-dev", "nlohmann-json3-dev", "libtomlplusplus-dev", "libcli11-dev"])

    def package_id(self):
        del self.info.settings.compiler  # a command and sources
        del self.info.settings.build_type

    def _wheels(self):
        """Halide's and Plotly's wheels, in an environment beside the build: the folder of its packages."""
        venv = os.path.join(self.build_folder, "halide")
        if not os.path.exists(venv):
            self.run(f'"{sys.executable}" -m venv "{venv}"')
            self.run(f'"{venv}/bin/python" -m pip install -q --only-binary :all: halide=={HALIDE} plotly=={PLOTLY}')
        return os.path.join(venv, f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables.update(KILN_BUILD_TESTS=False, KILN_BUILD_EXAMPLES=False)
        toolchain.generate()

    def build(self):
        wheels = self._wheels()
        halide = f"{wheels}/halide/lib64/cmake"
        cmake = CMake(self)
        cmake.configure(variables={"Halide_DIR": f"{halide}/Halide", "HalideHelpers_DIR": f"{halide}/HalideHelpers",
                                   "KILN_PLOTLY": f"{wheels}/plotly/package_data/plotly.min.js"})
        cmake.build(target="kiln")
        cmake.build(target="kiln_pages")

    def package(self):
        cmake = CMake(self)
        for component in ("kiln", "dev"):
            cmake.install(component=component)
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.bindirs = ["bin"]
        self.cpp_info.includedirs = ["include"]
        self.cpp_info.builddirs = ["lib/cmake/Kiln"]
        self.cpp_info.set_property("cmake_find_mode", "none")  # its own KilnConfig.cmake
        self.buildenv_info.prepend_path("PATH", os.path.join(self.package_folder, "bin"))
