#include "clora/runtime/commands/capture_request.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "runtime/fail.hpp"

namespace clora {
namespace {

std::string as_file_name(std::string name) {
  std::ranges::replace_if(
      name,
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '.' && c != '-'; },
      '-');
  return name;
}

}  // namespace

CaptureRequest capture_request(std::string_view text, const std::filesystem::path& parent) {
  CaptureRequest request;
  const std::size_t colon = std::min(text.find(':'), text.size());
  request.op = text.substr(0, colon);
  bool good = !request.op.empty();
  if (colon < text.size()) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, request.launch);
    good = good && error == std::errc() && stop == end && request.launch > 0;
  }
  require(good,
          "capture: CLORA_CAPTURE must be OP or OP:N with N at least 1, such as "
          "rms_norm/forward:3, got '{}'",
          text);
  const std::string name = fmt::format("{}-{}", as_file_name(request.op), request.launch);
  request.folder = parent.empty() ? std::filesystem::path("clora-capture-" + name) : parent / name;
  return request;
}

}  // namespace clora
