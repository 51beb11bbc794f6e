# The libraries whose headers the kiln command is compiled with, all looked for at once: what is missing is told in one
# message. They leave nothing to be installed beside the command.
find_package(fmt QUIET)
find_package(nlohmann_json QUIET)
find_package(CLI11 QUIET)
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h)
set(missing "")
foreach(library IN ITEMS fmt nlohmann_json CLI11)
    if(NOT ${library}_FOUND)
        list(APPEND missing ${library})
    endif()
endforeach()
if(NOT TOMLPLUSPLUS_INCLUDE)
    list(APPEND missing toml++)
endif()
if(missing)
    list(JOIN missing ", " missing)
    message(FATAL_ERROR "Kiln is built with headers that are not here: ${missing}. On Debian and Ubuntu:\n"
                        "  apt-get install libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev")
endif()

# toml++ has no version that CMake is told.
foreach(part IN ITEMS MAJOR MINOR PATCH)
    file(GLOB version_files "${TOMLPLUSPLUS_INCLUDE}/toml++/toml_version.h" "${TOMLPLUSPLUS_INCLUDE}/toml++/impl/version.h"
         "${TOMLPLUSPLUS_INCLUDE}/toml++/toml.h")
    foreach(file IN LISTS version_files)
        file(STRINGS "${file}" line REGEX "define TOML_LIB_${part} +[0-9]+" LIMIT_COUNT 1)
        if(line MATCHES "([0-9]+)$")
            set(toml_${part} ${CMAKE_MATCH_1})
        endif()
    endforeach()
endforeach()
set(tomlplusplus_VERSION "${toml_MAJOR}.${toml_MINOR}.${toml_PATCH}")
