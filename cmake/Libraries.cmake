# The libraries that programs link to, built from the modules (docs/decisions/packaging.md):
#   libclora.a   all modules, C++ and C       clora::clora
#   libclora.so  only the C interface         clora::shared
# The modules themselves are clora::runtime, clora::ops, clora::lora, clora::model and
# clora::serving.
set(modules runtime ops lora model serving)
foreach(module IN LISTS modules)
  add_library(clora::${module} ALIAS clora_${module})
  list(APPEND module_objects $<TARGET_OBJECTS:clora_${module}>)
endforeach()
set(c_api_folder ${PROJECT_SOURCE_DIR}/model/c_api)

add_library(clora_whole STATIC ${module_objects})
add_library(clora::clora ALIAS clora_whole)
set_target_properties(clora_whole PROPERTIES OUTPUT_NAME clora EXPORT_NAME clora LINKER_LANGUAGE CXX)
target_include_directories(clora_whole PUBLIC
  $<BUILD_INTERFACE:${CLORA_PUBLIC_INCLUDE}> $<BUILD_INTERFACE:${c_api_folder}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(clora_whole PUBLIC ${CLORA_DEPENDENCIES} PRIVATE fmt::fmt)

if(CLORA_SHARED)
  add_library(clora_shared SHARED ${module_objects})
  add_library(clora::shared ALIAS clora_shared)
  set_target_properties(clora_shared PROPERTIES OUTPUT_NAME clora EXPORT_NAME shared
    LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${CLORA_SOVERSION}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported_symbols.map)
  target_include_directories(clora_shared INTERFACE
    $<BUILD_INTERFACE:${c_api_folder}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(clora_shared PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exported_symbols.map)
  target_link_libraries(clora_shared PRIVATE ${CLORA_DEPENDENCIES} fmt::fmt)
endif()
