# Debian packages, by the target `package` or by cpack (docs/installing.md):
#   clora          the programs with their completions and manual pages
#   libclora0      libclora.so.0, for programs that use the C interface
#   libclora-dev   headers, static libraries, and the packages for CMake and pkg-config
# Those of the preset `package` have the prefix /usr.
set(CLORA_PACKAGE_CONTACT "clora <clora@packages.example.com>" CACHE STRING
  "Maintainer that the packages name: NAME <ADDRESS>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME clora)
set(CPACK_PACKAGE_VENDOR clora)
set(CPACK_PACKAGE_CONTACT "${CLORA_PACKAGE_CONTACT}")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)  # one package for each component
set(CPACK_COMPONENTS_ALL development)
if(CLORA_SHARED)
  list(PREPEND CPACK_COMPONENTS_ALL library)
endif()
if(CLORA_BUILD_TOOLS OR CLORA_BUILD_CLC)
  list(PREPEND CPACK_COMPONENTS_ALL programs)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Adds the changelog and the licence, and compresses manual pages.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/finish_packages.cmake)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME clora)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "openmpi-bin, clang-14, oclgrind")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "clora fine-tunes, evaluates and serves language models with LoRA on any
OpenCL device, including a CPU without a GPU. It reads and writes GGUF and
safetensors models and PEFT adapters. clc builds, checks, measures and tunes
OpenCL kernels.")

set(library_package libclora${CLORA_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # of all components, of which one has such files
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Shared library with the C interface of clora, for programs in C and other
languages.")

# What find_package(clora) looks for, so that a program can be linked with the static libraries.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libclora-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "ocl-icd-opencl-dev, libfmt-dev, nlohmann-json3-dev, \
libpcre2-dev, libutf8proc-dev, zlib1g-dev, libzstd-dev, pkg-config")
if(CLORA_SHARED)
  string(PREPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${library_package} (= ${PROJECT_VERSION}), ")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "cmake, libopenmpi-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers in C++ and C, static libraries, and files for CMake and pkg-config.")

include(CPack)
