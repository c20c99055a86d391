#include "lora/hub_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace clora {
namespace {

constexpr std::size_t kMaxNameBytes = 96;  // the limit of the hub

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                  c == '.';
         });
}

}  // namespace

bool has_hub_form(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && is_name(text.substr(0, slash)) &&
         is_name(text.substr(slash + 1));
}

bool is_hub_id(const std::filesystem::path& path) {
  const std::string text = path.string();
  std::error_code ignored;
  return has_hub_form(text) && !std::filesystem::exists(path, ignored) &&
         !std::filesystem::exists(text.substr(0, text.find('/')), ignored);
}

std::string hub_hint(const std::filesystem::path& path) {
  if (!is_hub_id(path)) return {};
  return fmt::format(
      "; clora does not download models or adapters: if this is a Hugging Face Hub repository, run "
      "'hf download {} --local-dir {}' (or huggingface-cli) and pass that folder",
      path.string(), path.filename().string());
}

}  // namespace clora
