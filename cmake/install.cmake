# What `cmake --install` puts under the prefix; the build tree has the same bin/ and share/kiln/, because kiln looks for what
# it needs in ../share/kiln from where it lies.
#
#   bin/kiln           with libHalide.so in lib/kiln
#   share/kiln/        sources that are compiled on the user's machine, in the folders they have here; the ONNX importer; what
#                      makes kiln tune's page; the generic engine's layers
#   lib/cmake/Kiln/    find_package(Kiln), toolchains/ to cross-compile with
#   share/doc/kiln/    licences
include(CMakePackageConfigHelpers)

set(kiln_shipped_folders runtime tools/harness tests/reference)

set_target_properties(kiln PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin" INSTALL_RPATH "$ORIGIN/../lib/kiln")
install(TARGETS kiln DESTINATION bin)
install(PROGRAMS "$<TARGET_FILE:Halide::Halide>" DESTINATION lib/kiln)
foreach(folder IN LISTS kiln_shipped_folders)
    get_filename_component(parent "${folder}" DIRECTORY)
    install(DIRECTORY "${folder}" DESTINATION "share/kiln/${parent}" FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp"
            PATTERN "CMakeLists.txt")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/share/kiln/${parent}")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" "${CMAKE_BINARY_DIR}/share/kiln/${folder}" SYMBOLIC)
endforeach()
install(FILES tools/generic.toml tools/page.py tools/tune_report.py DESTINATION share/kiln)
foreach(script IN ITEMS page.py tune_report.py)
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/tools/${script}" "${CMAKE_BINARY_DIR}/share/kiln/${script}" SYMBOLIC)
endforeach()
install(DIRECTORY tools/onnx_import DESTINATION share/kiln FILES_MATCHING PATTERN "*.py")
file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/tools/onnx_import" "${CMAKE_BINARY_DIR}/share/kiln/onnx_import" SYMBOLIC)
# In a checkout, the Python that has onnx is its own.
if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/.venv" "${CMAKE_BINARY_DIR}/share/kiln/.venv" SYMBOLIC)
endif()
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION share/doc/kiln)

configure_package_config_file(cmake/KilnConfig.cmake.in "${CMAKE_BINARY_DIR}/KilnConfig.cmake"
                              INSTALL_DESTINATION lib/cmake/Kiln)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/KilnConfig.cmake" "${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake"
              cmake/KilnAddLibrary.cmake DESTINATION lib/cmake/Kiln)
install(DIRECTORY cmake/toolchains DESTINATION lib/cmake/Kiln)
