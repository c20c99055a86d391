// Outcomes of self-tests in the cache folder: a small file for each kernel, named and headed by all
// that the outcome depends on: device, driver, the kernel's text with its includes. A file that is
// not whole, or of anything else, counts as none. Written whole or not at all, by any number of
// processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/context.hpp"

namespace clora {

struct SelfTestOutcome {
  std::string complaint;  // empty: the kernel is right
  bool right() const noexcept { return complaint.empty(); }
};

// What an outcome belongs to. Errors: not_found (the kernel file).
class SelfTestKey {
 public:
  SelfTestKey(const Context& context, std::string_view file, std::string_view name);

  // The outcome that is kept, if there is one.
  std::optional<SelfTestOutcome> load() const;
  // Keeps it. Where that fails, the next process tests again.
  void store(const SelfTestOutcome& outcome) const noexcept;
  // Empty where the Context has no cache folder.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::string heading_;
  std::filesystem::path path_;
};

}  // namespace clora
