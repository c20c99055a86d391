#include "lora/hub_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace clora {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

std::string hub_hint(const std::filesystem::path& path) {
  const std::string text = path.string();
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {};
  const std::string owner = text.substr(0, slash), name = text.substr(slash + 1);
  std::error_code ignored;
  if (!is_name(owner) || !is_name(name) || std::filesystem::exists(path, ignored)) return {};
  if (std::filesystem::exists(owner, ignored)) return {};  // a folder here that lacks `name`
  return fmt::format(
      "; nothing is downloaded here: if it is a repository of the Hugging Face hub, run 'hf "
      "download "
      "{} --local-dir {}' (or huggingface-cli) and name that folder",
      text, name);
}

}  // namespace clora
