# CPack: kiln and libkiln-dev as .deb for Debian 12, Ubuntu 24.04 and later, and all of it as one .tar.xz. `./dev package`
# makes and tries them; cpack in the build tree makes them alone.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)  # packages need the command alone, not the tests
set(CPACK_PACKAGE_NAME kiln)
set(CPACK_PACKAGE_VENDOR "The Kiln authors")
set(CPACK_PACKAGE_CONTACT "The Kiln authors <kiln@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiles convolutions ahead of time")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_STRIP_FILES TRUE)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL kiln dev)
set(CPACK_VERBATIM_VARIABLES TRUE)

# One archive of both, with the prefix's folders at its top folder.
set(CPACK_ARCHIVE_COMPONENT_INSTALL FALSE)
set(CPACK_PACKAGE_FILE_NAME "kiln-${PROJECT_VERSION}-linux-x86_64")

set(CPACK_DEB_COMPONENT_INSTALL TRUE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_KILN_PACKAGE_NAME kiln)
set(CPACK_DEBIAN_KILN_DESCRIPTION "Compiles convolutions ahead of time
 Layers of a TOML file or an ONNX model become a static library, a C and C++
 header and a manifest: one specialised kernel a layer, made with Halide.")
# What bin/kiln and libHalide.so are linked with, as old as they allow.
set(CPACK_DEBIAN_KILN_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1 (>= 3.4), libstdc++6 (>= 12)")
set(CPACK_DEBIAN_KILN_PACKAGE_RECOMMENDS "g++")
set(CPACK_DEBIAN_KILN_PACKAGE_SUGGESTS "libkiln-dev, python3-onnx, cmake")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libkiln-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_DESCRIPTION "Compiles convolutions ahead of time, the CMake package
 find_package(Kiln), kiln_add_library() and the runtime's headers.")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "kiln (= ${PROJECT_VERSION}), g++")
include(CPack)
