// Ctrl-C while the command line loads a model. The signal is raised inside the load, at a chosen
// transfer, so no test depends on the speed of the load.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/test_files.hpp"
#include "tests/support/tiny_chat_model.hpp"
#include "tools/clora/commands/command_line.hpp"

namespace {

int writes = 0;
int interrupted_at = 0;  // the transfer to the device that raises SIGINT; 0: none

}  // namespace

// Interposes the OpenCL loader's function.
extern "C" cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                       size_t offset, size_t bytes, const void* data,
                                       cl_uint wait_count, const cl_event* wait_list,
                                       cl_event* event) {
  static auto* const real =
      reinterpret_cast<decltype(&clEnqueueWriteBuffer)>(dlsym(RTLD_NEXT, "clEnqueueWriteBuffer"));
  if (++writes == interrupted_at) ::raise(SIGINT);
  return real(queue, buffer, blocking, offset, bytes, data, wait_count, wait_list, event);
}

namespace clora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Ended {
  int exit_code = -1;  // 128 + N if signal N ended it
  std::string out;
  std::string err;
};

class Interrupted : public testing::Test {
 protected:
  Interrupted() { test::write_tiny_chat_model(folder_ / "model"); }

  // Runs `clora generate` in a separate process, interrupted at the n-th transfer.
  Ended generate(int at_write) {
    const pid_t child = ::fork();
    if (child == 0) {
      interrupted_at = at_write;
      redirect(STDOUT_FILENO, folder_ / "out");
      redirect(STDERR_FILENO, folder_ / "err");
      const std::string model = folder_ / "model";
      const int code =
          run_command_line({"generate", "--model", model, "--prompt", "a", "--max-tokens", "2"});
      std::fflush(nullptr);
      ::_exit(code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
            test::read_file(folder_ / "out"), test::read_file(folder_ / "err")};
  }

  test::TemporaryFolder folder_;

 private:
  static void redirect(int stream, const std::filesystem::path& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ::dup2(file, stream) < 0) ::_exit(3);
  }
};

TEST_F(Interrupted, ALoadEndsWithoutAReply) {
  for (const int at_write : {1, 2, 5}) {
    const Ended ended = generate(at_write);
    EXPECT_EQ(ended.exit_code, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("clora: stopping the load"));
    EXPECT_THAT(ended.err, HasSubstr("clora: error: model: loading was cancelled"));
    EXPECT_THAT(ended.out, IsEmpty());
  }
}

TEST_F(Interrupted, ALoadThatIsNotInterruptedCompletes) {
  const Ended ended = generate(0);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, Not(IsEmpty()));
}

}  // namespace
}  // namespace clora
