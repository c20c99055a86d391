# cmake --install: the program, the rooms' libraries and headers, and a package for
# find_package(clora), whose target is clora::model (it brings the rooms below).
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/clora)
foreach(room IN ITEMS runtime ops lora model)
  set_target_properties(clora_${room} PROPERTIES EXPORT_NAME ${room})
  install(TARGETS clora_${room} EXPORT clora-targets)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/clora
    FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(EXPORT clora-targets NAMESPACE clora:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clora-config.cmake.in
  ${PROJECT_BINARY_DIR}/clora-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/clora-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/clora-config.cmake
  ${PROJECT_BINARY_DIR}/clora-config-version.cmake DESTINATION ${package_folder})
