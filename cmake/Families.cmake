# clora_collect_families(TARGET FOLDER): adds families() (cmake/write_families.cmake) to TARGET.
# Adding a family to FOLDER edits no other file.
function(clora_collect_families target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(FOLDER ${folder})
  set(OUTPUT ${PROJECT_BINARY_DIR}/generated/families.cpp)
  include(write_families)
  target_sources(${target} PRIVATE ${OUTPUT})
endfunction()
