// Program: the built cl_program behind a Kernel. For the .cpp files of runtime/ only.
#pragma once

#include "runtime/opencl.hpp"

namespace clora {

class Program {
 public:
  explicit Program(OwnedProgram handle) : handle_(std::move(handle)) {}
  cl_program handle() const noexcept { return handle_.get(); }

 private:
  OwnedProgram handle_;
};

}  // namespace clora
