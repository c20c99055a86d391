#include "model/configuration/family.hpp"

#include <algorithm>
#include <vector>

#include "runtime/fail.hpp"

namespace clora {

const Family& family_of(std::string_view name, std::string_view file) {
  const auto all = families();
  const auto at = std::ranges::find(all, name, [](const Family* family) { return family->name; });
  if (at != all.end()) return **at;
  std::vector<std::string_view> names;
  for (const Family* family : all) names.push_back(family->name);
  fail(ErrorCode::unsupported,
       "{}: the architecture '{}' is not supported; supported architectures: {}", file, name,
       fmt::join(names, ", "));
}

}  // namespace clora
