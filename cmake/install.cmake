# What `cmake --install` puts under the prefix; the build tree has the same bin/ and share/kiln/, because kiln looks for what
# it needs in ../share/kiln from where it lies. In a wheel the prefix is the Python package kiln/.
#
#   bin/kiln           with libHalide.so in lib/kiln; a wheel's takes that of the wheel halide
#   share/kiln/        sources that are compiled on the user's machine, in the folders they have here; the ONNX importer; what
#                      makes kiln tune's page; the generic engine's layers
#   share/man/, share/bash-completion/, share/zsh/, share/fish/   what kiln itself tells of its command line
#   lib/cmake/Kiln/    find_package(Kiln), toolchains/ to cross-compile with
#   include/kiln/      the runtime's headers, for whoever looks for them there; find_package() takes those of share/kiln
#   share/doc/kiln/    licences, and what the package is made of (CycloneDX)
#
# Components: kiln, the command and what it uses; dev, what only other projects' builds read.
include(CMakePackageConfigHelpers)

set(kiln_shipped_folders runtime tools/harness tools/network_program tools/calibration_program tests/reference)

set_target_properties(kiln PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin" INSTALL_RPATH "$ORIGIN/../lib/kiln")
if(SKBUILD)
    set_target_properties(kiln PROPERTIES INSTALL_RPATH "$ORIGIN/../../halide/lib64")
    file(WRITE "${CMAKE_BINARY_DIR}/halide-version" "${Halide_VERSION}\n")
    install(FILES "${CMAKE_BINARY_DIR}/halide-version" DESTINATION share/kiln COMPONENT kiln)
else()
    install(PROGRAMS "$<TARGET_FILE:Halide::Halide>" DESTINATION lib/kiln COMPONENT kiln)
endif()
install(TARGETS kiln DESTINATION bin COMPONENT kiln)
foreach(folder IN LISTS kiln_shipped_folders)
    get_filename_component(parent "${folder}" DIRECTORY)
    install(DIRECTORY "${folder}" DESTINATION "share/kiln/${parent}" COMPONENT kiln FILES_MATCHING PATTERN "*.h"
            PATTERN "*.cpp" PATTERN "CMakeLists.txt")
    file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/share/kiln/${parent}")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${folder}" "${CMAKE_BINARY_DIR}/share/kiln/${folder}" SYMBOLIC)
endforeach()
install(FILES tools/generic.toml tools/network_report.py tools/page.py tools/tune_report.py DESTINATION share/kiln
        COMPONENT kiln)
install(FILES tools/cluster/actors.py tools/cluster/batches.py tools/cluster/boards.py tools/cluster/driver.py
              tools/cluster/machines.py tools/cluster/scheduler.py tools/cluster/raycluster.yaml
              tools/cluster/requirements.txt
        DESTINATION share/kiln/cluster COMPONENT kiln)
file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/tools/cluster" "${CMAKE_BINARY_DIR}/share/kiln/cluster" SYMBOLIC)
foreach(script IN ITEMS network_report.py page.py tune_report.py)
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/tools/${script}" "${CMAKE_BINARY_DIR}/share/kiln/${script}" SYMBOLIC)
endforeach()
# What draws figures in pages; without it they say so, and the rest is there.
set(plotly_hints "")
if(SKBUILD)
    set(find_plotly "from importlib.util import find_spec; print(find_spec('plotly').submodule_search_locations[0], end='')")
    execute_process(COMMAND "${Python_EXECUTABLE}" -c "${find_plotly}" OUTPUT_VARIABLE plotly_hints)
else()
    file(GLOB plotly_hints "${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/plotly")
endif()
find_file(KILN_PLOTLY plotly.min.js HINTS ${plotly_hints} PATH_SUFFIXES package_data NO_DEFAULT_PATH
          DOC "Plotly's script, for the pages of kiln tune")
if(KILN_PLOTLY)
    install(FILES "${KILN_PLOTLY}" DESTINATION share/kiln COMPONENT kiln)
    file(CREATE_LINK "${KILN_PLOTLY}" "${CMAKE_BINARY_DIR}/share/kiln/plotly.min.js" SYMBOLIC)
else()
    message(STATUS "plotly.min.js is not there (PyPI's plotly has it; KILN_PLOTLY names it): pages will have no figures")
endif()
install(DIRECTORY tools/onnx_import DESTINATION share/kiln COMPONENT kiln FILES_MATCHING PATTERN "*.py")
file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/tools/onnx_import" "${CMAKE_BINARY_DIR}/share/kiln/onnx_import" SYMBOLIC)
# In a checkout, the Python that has onnx is its own.
if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/.venv" "${CMAKE_BINARY_DIR}/share/kiln/.venv" SYMBOLIC)
endif()

# What kiln tells of its own command line.
set(pages "${CMAKE_BINARY_DIR}/pages")
file(MAKE_DIRECTORY "${pages}")
add_custom_command(
    OUTPUT "${pages}/kiln.1" "${pages}/kiln.bash" "${pages}/_kiln" "${pages}/kiln.fish"
    COMMAND kiln man > "${pages}/kiln.1"
    COMMAND kiln completion bash > "${pages}/kiln.bash"
    COMMAND kiln completion zsh > "${pages}/_kiln"
    COMMAND kiln completion fish > "${pages}/kiln.fish"
    DEPENDS kiln
    COMMENT "Writing kiln's manual and completion")
add_custom_target(kiln_pages ALL DEPENDS "${pages}/kiln.1")
# Optional: whoever builds the target kiln alone can install what there is.
install(FILES "${pages}/kiln.1" DESTINATION share/man/man1 COMPONENT kiln OPTIONAL)
install(FILES "${pages}/kiln.bash" DESTINATION share/bash-completion/completions RENAME kiln COMPONENT kiln OPTIONAL)
install(FILES "${pages}/_kiln" DESTINATION share/zsh/site-functions COMPONENT kiln OPTIONAL)
install(FILES "${pages}/kiln.fish" DESTINATION share/fish/vendor_completions.d COMPONENT kiln OPTIONAL)

include(cmake/notices.cmake)
install(FILES LICENSE "${CMAKE_BINARY_DIR}/THIRD_PARTY_NOTICES.md" "${CMAKE_BINARY_DIR}/kiln.cdx.json"
        DESTINATION share/doc/kiln COMPONENT kiln)
install(FILES LICENSE DESTINATION share/doc/libkiln-dev COMPONENT dev)

configure_package_config_file(cmake/KilnConfig.cmake.in "${CMAKE_BINARY_DIR}/KilnConfig.cmake"
                              INSTALL_DESTINATION lib/cmake/Kiln)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/KilnConfig.cmake" "${CMAKE_BINARY_DIR}/KilnConfigVersion.cmake"
              cmake/KilnAddLibrary.cmake cmake/KilnAddNetwork.cmake DESTINATION lib/cmake/Kiln COMPONENT dev)
install(DIRECTORY cmake/toolchains DESTINATION lib/cmake/Kiln COMPONENT dev)
install(DIRECTORY runtime/include/kiln DESTINATION include COMPONENT dev)
