# Installs the build folder BUILD under WORK, then builds and runs the programs of SOURCE
# (tests/install/consumer) there, which use only the installed files: in C++ and C, with the static
# libraries and the shared one, by find_package and by pkg-config. SERVER, if given, is
# examples/embed_server, which is built there as a separate project.
# The installed headers must be those of HEADERS, separated by commas, and no others.
#   cmake -DBUILD=... -DSOURCE=... -DHEADERS=... [-DSERVER=...] -DWORK=... -DGENERATOR=Ninja -P install_test.cmake
cmake_policy(VERSION 3.21)
file(REMOVE_RECURSE ${WORK})
file(STRINGS ${BUILD}/CMakeCache.txt sanitize REGEX "^CLORA_SANITIZE:[A-Z]+=(ON|address|thread|undefined)")
if(sanitize)
  message("skipped: libraries built with sanitizers need a program built so, too")
  return()
endif()
set(prefix ${WORK}/prefix)

# Runs a command that must succeed, and stores its output in `output`.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect said)
  run(${ARGN})
  if(NOT output STREQUAL "${said}\n")
    message(FATAL_ERROR "${ARGN} printed '${output}', not '${said}'")
  endif()
endfunction()

# Compiles the C program with the flags that pkg-config gives for ARGN.
function(build_with_pkg_config program)
  run(pkg-config ${ARGN} --cflags --libs clora)
  separate_arguments(flags UNIX_COMMAND "${output}")
  run(cc -std=c11 -Wall -Wextra -Werror ${SOURCE}/c_interface.c -o ${WORK}/${program} ${flags})
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
string(REPLACE "," ";" public_headers "${HEADERS}")
file(GLOB_RECURSE installed_headers RELATIVE ${prefix}/include/clora ${prefix}/include/clora/*)
list(SORT public_headers)
list(SORT installed_headers)
if(NOT installed_headers STREQUAL public_headers)
  message(FATAL_ERROR "the headers installed are '${installed_headers}', not '${public_headers}'")
endif()
foreach(file bash-completion/completions/clora zsh/site-functions/_clora
    fish/vendor_completions.d/clora.fish man/man1/clora.1 man/man1/clora-adapters-add.1)
  if(EXISTS ${BUILD}/tools/clora AND NOT EXISTS ${prefix}/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/build)
expect("steps 3" ${WORK}/build/one_module)
expect("equal" ${WORK}/build/own_queue)

if(EXISTS ${WORK}/build/ranks)  # built if clora has the component parallel
  run(${WORK}/build/ranks)
  if(NOT output MATCHES "^linked with Open MPI ")
    message(FATAL_ERROR "ranks printed '${output}'")
  endif()
endif()

if(SERVER)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SERVER} -B ${WORK}/server -DCMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${WORK}/server)
  execute_process(COMMAND ${WORK}/server/embed_server ERROR_VARIABLE said)
  if(NOT said MATCHES "usage: embed_server MODEL PORT")
    message(FATAL_ERROR "embed_server printed '${said}', not its usage")
  endif()
endif()

file(GLOB_RECURSE pc ${prefix}/clora.pc)
get_filename_component(pc_folder ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
get_filename_component(library_folder ${pc_folder} DIRECTORY)
run(pkg-config --modversion clora)
string(STRIP "${output}" version)
expect("clora ${version}" ${WORK}/build/c_static)

file(GLOB shared ${library_folder}/libclora.so*)
if(shared)
  expect("clora ${version}" ${WORK}/build/c_shared)
  build_with_pkg_config(pkg_config_shared)
  expect("clora ${version}"
    ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${library_folder} ${WORK}/pkg_config_shared)
  run(nm -D --defined-only --format=posix ${library_folder}/libclora.so)
  string(REGEX REPLACE "\n$" "" output "${output}")
  string(REPLACE "\n" ";" symbols "${output}")
  list(FILTER symbols EXCLUDE REGEX "^(clora_[a-z0-9_]+(@@CLORA_0)? T|CLORA_0) ")
  list(FILTER symbols EXCLUDE REGEX "^CLORA_0(@@CLORA_0)? A")
  if(symbols)
    message(FATAL_ERROR "libclora.so exports more than the C interface: ${symbols}")
  endif()
  file(REMOVE ${shared})  # the steps below use an installation without it
endif()
build_with_pkg_config(pkg_config_static --static)
expect("clora ${version}" ${WORK}/pkg_config_static)
