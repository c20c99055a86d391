# clora_embed_kernels(TARGET FOLDER): adds every .cl and .clh file of FOLDER to TARGET as text, so that
# an installed program needs no kernel files. The table is read through runtime/kernel_sources.hpp.
function(clora_embed_kernels target folder)
  file(GLOB kernels CONFIGURE_DEPENDS ${folder}/*.cl ${folder}/*.clh)
  set(generated ${PROJECT_BINARY_DIR}/generated/embedded_kernel_sources.cpp)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} "-DKERNELS=${kernels}" -DOUTPUT=${generated}
            -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded_kernels.cmake
    DEPENDS ${kernels} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_kernels.cmake
    COMMENT "Embedding kernel sources" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
