#include "model/configuration/family.hpp"

#include <algorithm>
#include <vector>

#include "model/configuration/gguf_keys.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Name = std::string_view Family::*;

const Family& find_family(Name which, std::string_view name, std::string_view file) {
  const auto all = families();
  const auto name_in = [which](const Family* family) { return family->*which; };
  const auto at = std::ranges::find(all, name, name_in);
  if (at != all.end()) return **at;
  std::vector<std::string_view> names;
  for (const Family* family : all) names.push_back(name_in(family));
  fail(ErrorCode::unsupported,
       "{}: the architecture '{}' is not supported; supported architectures: {}", file, name,
       fmt::join(names, ", "));
}

}  // namespace

const Family& family_of(std::string_view name, std::string_view file) {
  return find_family(&Family::name, name, file);
}

const Family& family_of_gguf(std::string_view gguf_name, const GgufKeys& keys) {
  const Family* usual = nullptr;
  for (const Family* each : families()) {
    if (each->gguf_name != gguf_name) continue;
    if (each->is_gguf_of == nullptr) usual = each;
    if (each->is_gguf_of != nullptr && each->is_gguf_of(keys)) return *each;
  }
  return usual != nullptr ? *usual : find_family(&Family::gguf_name, gguf_name, keys.path());
}

}  // namespace clora
