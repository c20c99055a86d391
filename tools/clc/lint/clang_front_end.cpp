#include "tools/clc/lint/clang_front_end.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

#include "runtime/fail.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr const char* kClang = "clang-14";
constexpr double kSeconds = 120;

struct Target {
  const char* name;
  std::vector<std::string> options;
};

const std::array<Target, 4>& targets() {
  static const std::array<Target, 4> all{
      Target{"spir64", {}}, Target{"x86_64", {"-march=sapphirerapids"}},
      Target{"nvptx64-nvidia-nvcl", {}},
      Target{"amdgcn-amd-amdhsa", {"-mcpu=gfx90a", "-nogpulib"}}};
  return all;
}

// A temporary file with the text, removed when destroyed. clang includes the name of its input in
// the dump.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() / "clc_lint_XXXXXX.cl").string()) {
    constexpr int kSuffixLength = 3;
    const int file = ::mkstemps(path_.data(), kSuffixLength);
    if (file < 0) fail(ErrorCode::io, "clc: '{}' cannot be created; is the disk full?", path_);
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t more = ::write(file, text.data() + written, text.size() - written);
      if (more < 0) break;
      written += static_cast<std::size_t>(more);
    }
    ::close(file);
    if (written < text.size()) {
      ::unlink(path_.c_str());
      fail(ErrorCode::io, "clc: '{}' cannot be written; is the disk full?", path_);
    }
  }
  ~TextFile() { ::unlink(path_.c_str()); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// clang treats sub-groups as an extension of OpenCL 2.0, drivers as one of 1.2.
const char* standard_of(const std::string& text) {
  return text.find("cl_khr_subgroups") == std::string::npos ? "-cl-std=CL1.2" : "-cl-std=CL2.0";
}

// The options that affect parsing, in the form of clang's command line.
std::vector<std::string> reading_options(const std::string& text, const std::string& options) {
  std::istringstream words(options);
  std::vector<std::string> kept;
  bool has_standard = false;
  for (std::string word; words >> word;) {
    const bool has_value = word == "-D" || word == "-U";
    has_standard = has_standard || word.starts_with("-cl-std=");
    if (has_value || word.starts_with("-D") || word.starts_with("-U") ||
        word.starts_with("-cl-std=") || word == "-cl-single-precision-constant" ||
        word == "-cl-fast-relaxed-math") {
      kept.push_back(word);
    }
    if (has_value && words >> word) kept.push_back(word);
  }
  if (!has_standard) kept.emplace_back(standard_of(text));
  return kept;
}

ClangReading read_for(const Target& target, const TextFile& file, const std::string& text,
                      const std::string& options) {
  std::vector<std::string> command{kClang, "-x", "cl", "-fsyntax-only", "-target", target.name};
  const auto add = [&command](const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
  };
  add(target.options);
  add({"-Dasm=__asm__", "-Wall", "-Wno-unknown-pragmas", "-Wno-ignored-pragmas",
       "-Wno-bitwise-op-parentheses", "-Wno-logical-op-parentheses", "-ferror-limit=0",
       "-fno-caret-diagnostics", "-Xclang", "-ast-dump=json"});
  add(reading_options(text, options));
  command.push_back(file.path());
  const ProcessResult result = run_process(command, kSeconds);
  ClangReading reading{target.name, {}, {}};
  std::istringstream lines(result.err);
  ClangMessage message;
  for (std::string line; std::getline(lines, line);) {
    if (read_clang_message(line, message)) reading.messages.push_back(message);
  }
  if (!result.succeeded() && reading.errors() == 0) {
    fail(ErrorCode::build_failed, "clc: {} {}: {}", kClang, end_text(result), result.err);
  }
  if (reading.errors() == 0) reading.tree = read_syntax_tree(result.out, text, file.path());
  return reading;
}

// Takes a number and its terminator off the front of the text.
int take_number(std::string_view& text) {
  int number = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    number = number * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return number;
}

}  // namespace

int ClangReading::errors() const {
  return static_cast<int>(std::ranges::count(messages, true, &ClangMessage::is_error));
}

ClangReading read_with_clang(const std::string& text, const std::string& options) {
  if (!has_program(kClang)) {
    fail(ErrorCode::not_found,
         "clc lint: requires {}, which is not in PATH; install the Debian package clang-14",
         kClang);
  }
  const TextFile file(text);
  ClangReading best;
  for (const Target& target : targets()) {
    ClangReading reading = read_for(target, file, text, options);
    if (best.target.empty() || reading.errors() < best.errors()) best = std::move(reading);
    if (best.errors() == 0) break;
  }
  return best;
}

bool read_clang_message(const std::string& line, ClangMessage& message) {
  constexpr std::string_view error = ": error: ", fatal = ": fatal error: ";
  constexpr std::string_view warning = ": warning: ";
  message = {};
  std::size_t at = std::string::npos;
  for (const std::string_view mark : {fatal, error, warning}) {
    const std::size_t found = line.find(mark);
    if (found >= at) continue;
    at = found;
    message.is_error = mark != warning;
    message.text = line.substr(found + mark.size());
  }
  if (at == std::string::npos) return false;
  const std::string where = line.substr(0, at);
  const std::size_t column = where.rfind(':');
  const std::size_t number = column == std::string::npos ? column : where.rfind(':', column - 1);
  if (number == std::string::npos) return false;
  std::string_view numbers = std::string_view(where).substr(number + 1);
  message.location.file = where.substr(0, number);
  message.location.line = take_number(numbers);
  message.location.column = take_number(numbers);
  const std::size_t option = message.text.rfind(" [-W");
  if (option != std::string::npos && message.text.ends_with("]")) {
    message.option = message.text.substr(option + 2, message.text.size() - option - 3);
    message.text.resize(option);
  }
  return true;
}

}  // namespace clora
