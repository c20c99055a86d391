# cmake --install: the programs with their manual, the libraries and their headers, a package for
# find_package(clora) and one for pkg-config. The public headers are installed in include/clora,
# clora.h in include. Components: programs, library (libclora.so.N alone) and development.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/clora)
foreach(module IN LISTS modules)
  set_target_properties(clora_${module} PROPERTIES EXPORT_NAME ${module})
  install(TARGETS clora_${module} EXPORT clora-targets COMPONENT development)
endforeach()
set(CLORA_INSTALLED_HEADERS ${CLORA_PUBLIC_HEADERS})
if(NOT TARGET clora_parallel)
  list(FILTER CLORA_INSTALLED_HEADERS EXCLUDE REGEX "^parallel/")
endif()
foreach(header IN LISTS CLORA_INSTALLED_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/clora/${folder} COMPONENT development)
endforeach()
install(TARGETS clora_whole EXPORT clora-targets COMPONENT development)
install(EXPORT clora-targets NAMESPACE clora:: DESTINATION ${package_folder}
  COMPONENT development)
install(FILES ${c_api_folder}/clora.h TYPE INCLUDE COMPONENT development)
if(CLORA_SHARED)
  install(TARGETS clora_shared EXPORT clora-shared-targets
    LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT clora-shared-targets NAMESPACE clora:: DESTINATION ${package_folder}
    COMPONENT development)
endif()
if(TARGET clora_parallel)  # in a file of its own, since only its users need MPI
  set_target_properties(clora_parallel PROPERTIES EXPORT_NAME parallel)
  install(TARGETS clora_parallel EXPORT clora-parallel-targets COMPONENT development)
  install(EXPORT clora-parallel-targets NAMESPACE clora:: DESTINATION ${package_folder}
    COMPONENT development)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/clora-config.cmake.in
  ${PROJECT_BINARY_DIR}/clora-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/clora-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/clora-config.cmake
  ${PROJECT_BINARY_DIR}/clora-config-version.cmake DESTINATION ${package_folder}
  COMPONENT development)

# The .pc file uses paths relative to itself: the prefix may be set or changed after the build.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/clora.pc.in ${PROJECT_BINARY_DIR}/clora.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/clora.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# clora_install_program(NAME): the program NAME, and its completion scripts and manual pages, which
# it writes itself once it is built.
function(clora_install_program name)
  install(TARGETS ${name} COMPONENT programs)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "${name} does not run on this machine: it is installed without its manual")
    return()
  endif()
  set(share ${PROJECT_BINARY_DIR}/share/${name})
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}  # pages of commands that are no more
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${name}> manual --out ${share}
    COMMENT "Writing the manual of ${name}" VERBATIM)
  install(DIRECTORY ${share}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT programs)
endfunction()
