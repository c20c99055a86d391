#include "tools/command_line/build_notice.hpp"

#include <memory>

#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

constexpr double kLongSeconds = 1;

class BuildNotice {
 public:
  explicit BuildNotice(const OutputOptions& options) : output_(options) {}

  void operator()(const ProgramBuild& build) {
    if (output_.quiet()) return;
    if (build.finished) {
      seconds_ += build.seconds;
      output_.detail("compiled {} in {:.2f} s", build.file, build.seconds);
    } else if (has_terminal_line()) {
      show_terminal_line(fmt::format("compiling kernels (first time only) {}", build.number));
    }
    if (has_terminal_line() || told_ || seconds_ < kLongSeconds) return;
    told_ = true;
    output_.remark("compiling kernels (first time only)");
  }

 private:
  Output output_;
  double seconds_ = 0;
  bool told_ = false;
};

}  // namespace

std::function<void(const ProgramBuild&)> build_notice(const OutputOptions& options) {
  return [notice = std::make_shared<BuildNotice>(options)](const ProgramBuild& build) {
    (*notice)(build);
  };
}

}  // namespace clora
