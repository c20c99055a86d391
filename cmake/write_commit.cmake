# Writes OUT, the source of bench/support/commit.hpp, with the commit of SOURCE ("unknown" without
# git). OUT is left unchanged if its text is the same.
#   cmake -DSOURCE=... -DOUT=... -P write_commit.cmake
cmake_policy(VERSION 3.21)
set(commit unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(commit ${said})
  endif()
endif()
set(text "#include \"bench/support/commit.hpp\"\n
namespace clora::bench {
std::string_view built_commit() { return \"${commit}\"; }
}\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
