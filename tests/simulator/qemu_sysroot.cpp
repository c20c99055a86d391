// A library to be preloaded into programs of another processor that run under `qemu-user -L
// SYSROOT`: makes access() find files of the sysroot. QEMU 7.2 looks there for files that a program
// opens, but not in faccessat(), so that pocl would not find its library of kernels. QEMU_SYSROOT
// names the sysroot. tools/check_aarch64 uses it.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

using Access = int (*)(const char*, int);

extern "C" int access(const char* path, int mode) noexcept {
  static auto* const real = reinterpret_cast<Access>(::dlsym(RTLD_NEXT, "access"));
  const char* const sysroot = std::getenv("QEMU_SYSROOT");
  if (sysroot != nullptr && path != nullptr && path[0] == '/' &&
      real((std::string(sysroot) + path).c_str(), mode) == 0) {
    return 0;
  }
  return real(path, mode);
}

namespace {
// Programs that this one starts, such as the linker, are those of the host.
__attribute__((constructor)) void preload_no_other_program() { ::unsetenv("LD_PRELOAD"); }
}  // namespace
