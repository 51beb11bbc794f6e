# What a package carries besides Kiln, for people (THIRD_PARTY_NOTICES.md) and for programs (kiln.cdx.json, CycloneDX 1.5).
# A wheel does not carry Halide, but asks for Halide's own wheel.
file(READ THIRD_PARTY_NOTICES.md notices)
if(SKBUILD)
    # The sections on Halide and on what is in it come first.
    string(FIND "${notices}" "| {fmt} |" rows)
    string(FIND "${notices}" "\n## Halide" text)
    math(EXPR length "${text} - ${rows}")
    string(SUBSTRING "${notices}" ${rows} ${length} table)
    string(FIND "${notices}" "## {fmt}" text)
    string(SUBSTRING "${notices}" ${text} -1 text)
    string(CONCAT notices "# Third-party notices\n\nKiln's wheel holds the following besides its own code. Halide is not in it: "
                  "pip installs Halide's own wheel.\n\n| software | where | licence |\n| --- | --- | --- |\n"
                  "${table}\n${text}")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/THIRD_PARTY_NOTICES.md" "${notices}")

set(components "")
# kiln_component(NAME VERSION PURL LICENCE) adds one to the list.
function(kiln_component name version purl licence)
    set(entry "    {\"type\": \"library\", \"bom-ref\": \"${purl}\", \"name\": \"${name}\", \"version\": \"${version}\",
     \"purl\": \"${purl}\", \"licenses\": [{\"expression\": \"${licence}\"}]}")
    list(APPEND components "${entry}")
    set(components "${components}" PARENT_SCOPE)
    list(APPEND references "\"${purl}\"")
    set(references "${references}" PARENT_SCOPE)
endfunction()
kiln_component("fmt" "${fmt_VERSION}" "pkg:github/fmtlib/fmt@${fmt_VERSION}" "MIT")
kiln_component("CLI11" "${CLI11_VERSION}" "pkg:github/CLIUtils/CLI11@v${CLI11_VERSION}" "BSD-3-Clause")
kiln_component("nlohmann-json" "${nlohmann_json_VERSION}" "pkg:github/nlohmann/json@v${nlohmann_json_VERSION}" "MIT")
kiln_component("tomlplusplus" "${tomlplusplus_VERSION}" "pkg:github/marzer/tomlplusplus@v${tomlplusplus_VERSION}" "MIT")
kiln_component("halide" "${Halide_VERSION}" "pkg:pypi/halide@${Halide_VERSION}" "MIT")
if(KILN_PLOTLY)
    file(STRINGS "${KILN_PLOTLY}" line REGEX "plotly.js v[0-9.]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9.]+$" plotly_version "${line}")
    kiln_component("plotly.js" "${plotly_version}" "pkg:npm/plotly.js@${plotly_version}" "MIT")
endif()
if(NOT SKBUILD)
    kiln_component("llvm" "21.1.1" "pkg:github/llvm/llvm-project@llvmorg-21.1.1" "Apache-2.0 WITH LLVM-exception")
    kiln_component("wabt" "" "pkg:github/WebAssembly/wabt" "Apache-2.0")
endif()
list(JOIN components ",\n" components)
list(JOIN references ", " references)
string(REPLACE "\"version\": \"\"," "" components "${components}")
set(purl "pkg:generic/kiln@${PROJECT_VERSION}")
if(SKBUILD)
    set(purl "pkg:pypi/kiln-conv@${PROJECT_VERSION}")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/kiln.cdx.json" "{
  \"$schema\": \"http://cyclonedx.org/schema/bom-1.5.schema.json\",
  \"bomFormat\": \"CycloneDX\",
  \"specVersion\": \"1.5\",
  \"version\": 1,
  \"metadata\": {
    \"component\": {\"type\": \"application\", \"bom-ref\": \"${purl}\", \"name\": \"kiln\", \"version\": \"${PROJECT_VERSION}\",
                    \"purl\": \"${purl}\", \"licenses\": [{\"expression\": \"Apache-2.0\"}]}
  },
  \"components\": [
${components}
  ],
  \"dependencies\": [{\"ref\": \"${purl}\", \"dependsOn\": [${references}]}]
}
")
