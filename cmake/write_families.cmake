# Writes families() of model/configuration/family.hpp to OUTPUT: every FOLDER/NAME.cpp that defines
# `const Family NAME_family` is in it, in the order of their names. Included, or run by cmake -P.
file(GLOB sources ${FOLDER}/*.cpp)
list(SORT sources)
set(declared "")
set(listed "")
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} found REGEX "^const Family ${name}_family")
  if(found)
    string(APPEND declared "extern const Family ${name}_family;\n")
    string(APPEND listed "\n      &${name}_family,")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "model/configuration/family.hpp"

namespace clora {

@declared@
std::span<const Family* const> families() {
  static const Family* const all[] = {@listed@
  };
  return all;
}

}  // namespace clora
]])
