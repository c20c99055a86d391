# Installs the build folder BUILD under WORK, then builds and runs a program that finds it there.
#   cmake -DBUILD=... -DWORK=... -DGENERATOR=Ninja -P install_test.cmake
cmake_policy(VERSION 3.21)
file(REMOVE_RECURSE ${WORK})
file(STRINGS ${BUILD}/CMakeCache.txt sanitize REGEX "^CLORA_SANITIZE:BOOL=ON$")
if(sanitize)
  message("skipped: libraries built with sanitizers need a program built so, too")
  return()
endif()

file(WRITE ${WORK}/program/CMakeLists.txt [[
cmake_minimum_required(VERSION 3.21)
project(program CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(clora 0.1 REQUIRED)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE clora::model)
]])
file(WRITE ${WORK}/program/main.cpp [[
#include <cstdio>
#include "model/training_run.hpp"
int main() {
  clora::TrainingRunConfig config;
  config.batch_size = 4;
  std::printf("steps %d\n", static_cast<int>(clora::total_steps(config, 12)));
}
]])

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${WORK}/program -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/program)
if(NOT output STREQUAL "steps 3\n")
  message(FATAL_ERROR "the program said '${output}'")
endif()
