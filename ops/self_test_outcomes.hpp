// Outcomes of self-tests in the cache folder: a small file for each kernel, named and headed by all
// that the outcome depends on: device, driver, the kernel's text with its includes, options. A file
// that is not whole, or of anything else, counts as none. Written whole or not at all, by any
// number of processes.
//
// A driver may also crash on a kernel, and the process with it. So each attempt at a test is noted
// in the file before it begins; after two whose processes are gone without an outcome, the kernel
// counts as failed.
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
  SelfTestKey(const Context& context, std::string_view file, std::string_view name,
              std::string_view options = {});

  // The outcome that is kept, if there is one, or that of two attempts without an end.
  std::optional<SelfTestOutcome> load() const;
  // Notes that this process begins the test. REQUIRES: load() has no outcome.
  void note_attempt() const noexcept;
  // Takes the notes back: the test came to no outcome for reasons that are not the kernel's.
  void withdraw_attempt() const noexcept;
  // Keeps it. Where that fails, the next process tests again.
  void store(const SelfTestOutcome& outcome) const noexcept;
  // Empty where the Context has no cache folder.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::string body() const;
  void write(std::string_view body) const noexcept;

  std::string heading_;
  std::filesystem::path path_;
};

}  // namespace clora
