#include "ops/self_test_outcomes.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <system_error>

#include "runtime/digest.hpp"
#include "runtime/error.hpp"
#include "runtime/file.hpp"
#include "runtime/kernel_text.hpp"

namespace clora {
namespace {

constexpr int kFormat = 1;  // raised when self-tests check more than before
constexpr std::string_view kRight = "right\n";
constexpr std::string_view kWrong = "wrong: ";

std::string as_file_name(std::string_view name) {
  std::string result(name);
  std::ranges::replace_if(
      result, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return result;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

SelfTestKey::SelfTestKey(const Context& context, std::string_view file, std::string_view name) {
  const std::filesystem::path& folder = context.config().cache_folder;
  if (folder.empty()) return;
  const Device& device = context.device();
  const std::string text = kernel_text(std::string(file), context.config().kernel_folder);
  heading_ = fmt::format(
      "clora self-test {}\ndevice {}, {}, {}\ndriver {}, {} units\nkernel {} {}\n", kFormat,
      one_line(device.name), one_line(device.platform), one_line(device.opencl_version),
      one_line(device.driver), device.compute_units, name, digest_of(text).text());
  path_ =
      folder / "self_tests" / fmt::format("{}-{}", as_file_name(name), digest_of(heading_).text());
}

std::optional<SelfTestOutcome> SelfTestKey::load() const {
  if (path_.empty()) return std::nullopt;
  std::ifstream file(path_, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.starts_with(heading_)) return std::nullopt;
  const std::string_view outcome = std::string_view(text).substr(heading_.size());
  if (outcome == kRight) return SelfTestOutcome{};
  if (!outcome.starts_with(kWrong) || !outcome.ends_with('\n')) return std::nullopt;
  const std::string_view complaint = outcome.substr(kWrong.size());
  return SelfTestOutcome{std::string(complaint.substr(0, complaint.size() - 1))};
}

void SelfTestKey::store(const SelfTestOutcome& outcome) const noexcept try {
  if (path_.empty()) return;
  std::filesystem::create_directories(path_.parent_path());
  const std::string line = outcome.right()
                               ? std::string(kRight)
                               : fmt::format("{}{}\n", kWrong, one_line(outcome.complaint));
  write_file_atomically(path_, heading_ + line);
} catch (const std::exception&) {
  return;  // a cache: its loss costs time only
}

}  // namespace clora
