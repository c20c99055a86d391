#include "tools/command_line/build_notice.hpp"

#include <fmt/format.h>

#include <ctime>
#include <memory>

#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

// In processor time, which does not depend on the load of the machine. A program from the driver's
// own cache takes a few hundredths of a second.
constexpr double kLongSeconds = 1;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class BuildNotice {
 public:
  explicit BuildNotice(const OutputOptions& options) : output_(options) {}

  void operator()(const ProgramBuild& build) {
    if (output_.quiet()) return;
    if (build.finished) {
      seconds_ += processor_seconds() - begun_;
      output_.detail("compiled {} in {:.2f} s", build.file, build.seconds);
    } else {
      begun_ = processor_seconds();
      show_terminal_line(fmt::format("compiling kernels (first time only) {}", build.number));
    }
    if (has_terminal_line() || shown_ || seconds_ < kLongSeconds) return;
    shown_ = true;
    output_.remark("compiling kernels (first time only)");
  }

 private:
  Output output_;
  double begun_ = 0;    // start of the current build
  double seconds_ = 0;  // total of all builds
  bool shown_ = false;
};

}  // namespace

std::function<void(const ProgramBuild&)> build_notice(const OutputOptions& options) {
  return [notice = std::make_shared<BuildNotice>(options)](const ProgramBuild& build) {
    (*notice)(build);
  };
}

}  // namespace clora
