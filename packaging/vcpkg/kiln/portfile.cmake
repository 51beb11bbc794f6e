# vcpkg's port of Kiln: the command and all it reads in share/kiln/package, and a KilnConfig.cmake that finds it there.
# KILN_SOURCE names a checkout; vcpkg install --overlay-ports=packaging/vcpkg kiln takes the one that this file lies in.
if(NOT KILN_SOURCE)
    get_filename_component(KILN_SOURCE "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
endif()
set(VCPKG_BUILD_TYPE release)  # a command, and sources that its users compile

# Halide is that of its own wheel, as everywhere in Kiln: vcpkg's is older than Kiln asks for. So is Plotly's script.
x_vcpkg_get_python_packages(PYTHON_VERSION 3 OUT_PYTHON_VAR PYTHON3 PACKAGES --only-binary :all: halide==21.0.0 plotly==7.1.0)
get_filename_component(wheels "${PYTHON3}/../.." ABSOLUTE)
file(GLOB halide "${wheels}/lib/python3*/site-packages/halide/lib64/cmake")
file(GLOB plotly "${wheels}/lib/python3*/site-packages/plotly/package_data/plotly.min.js")

vcpkg_cmake_configure(SOURCE_PATH "${KILN_SOURCE}"
                      OPTIONS -DKILN_BUILD_TESTS=OFF -DKILN_BUILD_EXAMPLES=OFF "-DHalide_DIR=${halide}/Halide"
                              "-DHalideHelpers_DIR=${halide}/HalideHelpers" "-DKILN_PLOTLY=${plotly}"
                      MAYBE_UNUSED_VARIABLES HalideHelpers_DIR)
vcpkg_cmake_build(TARGET kiln)  # installing builds nothing by itself
vcpkg_cmake_build(TARGET kiln_pages)
vcpkg_cmake_install()

# The package is one folder that finds its own parts by their places in it, so it stays together.
set(package "${CURRENT_PACKAGES_DIR}/share/kiln/package")
file(RENAME "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}.whole")
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/kiln")
file(RENAME "${CURRENT_PACKAGES_DIR}.whole" "${package}")
file(RENAME "${package}/include" "${CURRENT_PACKAGES_DIR}/include")
file(WRITE "${CURRENT_PACKAGES_DIR}/share/kiln/KilnConfig.cmake"
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/package/lib/cmake/Kiln/KilnConfig.cmake\")\n")
file(COPY "${package}/lib/cmake/Kiln/KilnConfigVersion.cmake" DESTINATION "${CURRENT_PACKAGES_DIR}/share/kiln")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/kiln")
vcpkg_install_copyright(FILE_LIST "${KILN_SOURCE}/LICENSE" "${KILN_SOURCE}/THIRD_PARTY_NOTICES.md")
