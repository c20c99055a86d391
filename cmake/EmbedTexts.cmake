# clora_embed_texts(TARGET FOLDER HEADER FUNCTION [SUFFIX...]): embeds every file of FOLDER and its
# subfolders with one of the suffixes (default .cl and .clh) in TARGET as text, under its name
# without folders, so an installed program needs no files.
# HEADER (a path relative to the root) declares FUNCTION, which returns the table as
# std::span<const KernelSource>.
function(clora_embed_texts target folder header function)
  set(patterns ${ARGN})
  if(NOT patterns)
    set(patterns .cl .clh)
  endif()
  list(TRANSFORM patterns PREPEND ${folder}/*)
  file(GLOB_RECURSE texts CONFIGURE_DEPENDS ${patterns})
  set(generated ${PROJECT_BINARY_DIR}/generated/${function}.cpp)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} "-DTEXTS=${texts}" -DOUTPUT=${generated} -DHEADER=${header}
            -DFUNCTION=${function} -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded_texts.cmake
    DEPENDS ${texts} ${PROJECT_SOURCE_DIR}/cmake/write_embedded_texts.cmake
    COMMENT "Embedding ${function}" VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
