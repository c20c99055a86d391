# cmake --install: the program, the libraries and their headers, a package for find_package(clora)
# and one for pkg-config. The public headers are installed in include/clora, clora.h in include.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/clora)
foreach(module IN LISTS modules)
  set_target_properties(clora_${module} PROPERTIES EXPORT_NAME ${module})
  install(TARGETS clora_${module} EXPORT clora-targets)
endforeach()
foreach(header IN LISTS CLORA_PUBLIC_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/clora/${folder})
endforeach()
install(TARGETS clora_whole EXPORT clora-targets)
install(EXPORT clora-targets NAMESPACE clora:: DESTINATION ${package_folder})
install(FILES ${c_api_folder}/clora.h TYPE INCLUDE)
if(CLORA_SHARED)
  install(TARGETS clora_shared EXPORT clora-shared-targets)
  install(EXPORT clora-shared-targets NAMESPACE clora:: DESTINATION ${package_folder})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clora-config.cmake.in
  ${PROJECT_BINARY_DIR}/clora-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/clora-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/clora-config.cmake
  ${PROJECT_BINARY_DIR}/clora-config-version.cmake DESTINATION ${package_folder})

# The .pc file uses paths relative to itself: the prefix may be set or changed after the build.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/clora.pc.in ${PROJECT_BINARY_DIR}/clora.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/clora.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
