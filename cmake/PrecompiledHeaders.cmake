# Precompiled headers: without them a third of a build is parsing headers of the standard library,
# of other projects, and CLORA_BATCH, which includes most of the runtime's and is in most sources
# of what is above it. CLORA_JSON is for targets half of whose sources include it: to the others
# it adds 0.7 s each. Sources still include all that they use: -D
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without, as the preset `package` does.
set(CLORA_BATCH <clora/runtime/commands/batch.hpp>)
set(CLORA_JSON <nlohmann/json.hpp>)

# clora_precompile(TARGET [HEADER...]): precompiles the headers that most sources include, and the
# given ones.
function(clora_precompile target)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cmath> <filesystem> <functional>
    <map> <memory> <optional> <span> <string> <vector> <fmt/format.h> ${ARGN})
  clora_let_ccache_precompile(${target})
endfunction()

# clora_precompile_like(TARGET OWNER): TARGET uses the precompiled headers of OWNER, which must be
# compiled with the same options.
function(clora_precompile_like target owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  clora_let_ccache_precompile(${target})
endfunction()

# ccache tells precompiled headers apart only if the preprocessor keeps their names (its manual,
# section "Precompiled headers").
function(clora_let_ccache_precompile target)
  if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
