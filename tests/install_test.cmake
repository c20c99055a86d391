# Installs the build folder BUILD under WORK, then configures, builds and runs the programs of
# SOURCE (tests/consumer) there, which know nothing but the installed files.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DGENERATOR=Ninja -P install_test.cmake
cmake_policy(VERSION 3.21)
file(REMOVE_RECURSE ${WORK})
file(STRINGS ${BUILD}/CMakeCache.txt sanitize REGEX "^CLORA_SANITIZE:[A-Z]+=(ON|address|thread|undefined)")
if(sanitize)
  message("skipped: libraries built with sanitizers need a program built so, too")
  return()
endif()

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect program said)
  run(${program})
  if(NOT output STREQUAL "${said}\n")
    message(FATAL_ERROR "${program} said '${output}', not '${said}'")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
expect(${WORK}/build/one_room "steps 3")
expect(${WORK}/build/own_queue "equal")
