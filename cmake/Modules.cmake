# clora_module(NAME LINK libs... [PRECOMPILE headers...]): the static library clora_NAME of all
# sources in the folder NAME.
# Programs see the headers of cmake/PublicHeaders.cmake; targets of the tree that include private
# ones add PROJECT_SOURCE_DIR to their include path.
function(clora_module name)
  cmake_parse_arguments(ARG "" "" "LINK;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.hpp)
  if(NOT sources)  # a module without sources
    add_library(clora_${name} INTERFACE)
    target_link_libraries(clora_${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  add_library(clora_${name} STATIC ${sources} ${headers})
  target_include_directories(clora_${name}
    PUBLIC $<BUILD_INTERFACE:${CLORA_PUBLIC_INCLUDE}>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(clora_${name} PUBLIC ${ARG_LINK} PRIVATE fmt::fmt)
  clora_precompile(clora_${name} ${ARG_PRECOMPILE} ${CLORA_BATCH})
endfunction()
