# vcpkg's port of Kiln: the command in tools/, the CMake package with the runtime's sources in share/. KILN_SOURCE names a
# checkout; vcpkg install --overlay-ports=packaging/vcpkg kiln takes the one that this file lies in.
if(NOT KILN_SOURCE)
    get_filename_component(KILN_SOURCE "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
endif()
set(VCPKG_BUILD_TYPE release)  # a command, and sources that its users compile
vcpkg_cmake_configure(SOURCE_PATH "${KILN_SOURCE}" OPTIONS -DKILN_BUILD_TESTS=OFF -DKILN_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
# The package is one folder that finds its own parts by their places in it, so it stays together.
file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/kiln/package")
foreach(folder IN ITEMS bin lib share/kiln/runtime share/kiln/tools share/kiln/tests share/kiln/onnx_import share/kiln/generic.toml
                        share/kiln/page.py share/kiln/tune_report.py)
    if(EXISTS "${CURRENT_PACKAGES_DIR}/${folder}")
        get_filename_component(parent "${folder}" DIRECTORY)
        file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/share/kiln/package/${parent}")
        file(RENAME "${CURRENT_PACKAGES_DIR}/${folder}" "${CURRENT_PACKAGES_DIR}/share/kiln/package/${folder}")
    endif()
endforeach()
file(WRITE "${CURRENT_PACKAGES_DIR}/share/kiln/KilnConfig.cmake"
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/package/lib/cmake/Kiln/KilnConfig.cmake\")\n")
file(COPY "${CURRENT_PACKAGES_DIR}/share/kiln/package/lib/cmake/Kiln/KilnConfigVersion.cmake"
     DESTINATION "${CURRENT_PACKAGES_DIR}/share/kiln")
vcpkg_install_copyright(FILE_LIST "${KILN_SOURCE}/LICENSE" "${KILN_SOURCE}/THIRD_PARTY_NOTICES.md")
set(VCPKG_POLICY_EMPTY_INCLUDE_FOLDER enabled)
