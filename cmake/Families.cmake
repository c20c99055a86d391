# clora_collect_families(TARGET FOLDER): adds families() of model/configuration/family.hpp to TARGET. Each
# FOLDER/NAME.cpp that defines `const Family NAME_family` is a family: adding one edits no other file.
function(clora_collect_families target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  list(SORT sources)
  set(declared "")
  set(listed "")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    file(STRINGS ${source} found REGEX "^const Family ${name}_family")
    if(found)
      string(APPEND declared "extern const Family ${name}_family;\n")
      string(APPEND listed " &${name}_family,")
    endif()
  endforeach()
  set(generated ${PROJECT_BINARY_DIR}/generated/families.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "model/configuration/family.hpp"

namespace clora {

@declared@
std::span<const Family* const> families() {
  static const Family* const all[] = {@listed@};
  return all;
}

}  // namespace clora
]])
  target_sources(${target} PRIVATE ${generated})
endfunction()
