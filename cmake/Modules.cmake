# clora_module(NAME LINK libs...): the static library clora_NAME of all sources in the folder NAME.
function(clora_module name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.hpp)
  if(NOT sources)  # a module without sources
    add_library(clora_${name} INTERFACE)
    target_link_libraries(clora_${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  add_library(clora_${name} STATIC ${sources} ${headers})
  target_include_directories(clora_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/clora>)
  target_link_libraries(clora_${name} PUBLIC ${ARG_LINK})
endfunction()
