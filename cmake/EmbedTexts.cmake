# clora_embed_texts(TARGET FOLDER HEADER FUNCTION): adds every .cl and .clh file of FOLDER to TARGET
# as text, so that an installed program needs no kernel files. HEADER (a path from the root) declares
# FUNCTION, which gives the table as std::span<const KernelSource>.
function(clora_embed_texts target folder header function)
  file(GLOB texts CONFIGURE_DEPENDS ${folder}/*.cl ${folder}/*.clh)
  set(generated ${PROJECT_BINARY_DIR}/generated/${function}.cpp)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} "-DTEXTS=${texts}" -DOUTPUT=${generated} -DHEADER=${header}
            -DFUNCTION=${function} -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded_texts.cmake
    DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_texts.cmake
    COMMENT "Embedding ${function}" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
