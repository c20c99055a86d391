// Outcomes of self-tests in the cache folder: a small file per kernel. Its name and heading contain
// everything that the outcome depends on: device, driver, the kernel's text with its includes,
// options. A file that is incomplete or has another heading is ignored. Writes are atomic, also
// between processes.
//
// A kernel may also crash its driver, and the process with it. So each attempt is noted in the file
// before the test begins; after two attempts whose processes are gone without an outcome, the
// kernel counts as failed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/context.hpp"

namespace clora {

struct SelfTestOutcome {
  std::string complaint;  // empty: the kernel is correct
  bool right() const noexcept { return complaint.empty(); }
};

// Identifies an outcome. Errors: not_found (the kernel file).
class SelfTestKey {
 public:
  SelfTestKey(const Context& context, std::string_view file, std::string_view name,
              std::string_view options = {});

  // The stored outcome, if any, or a failure after two attempts that did not finish.
  std::optional<SelfTestOutcome> load() const;
  // Notes that this process begins the test. REQUIRES: load() returns no outcome.
  void note_attempt() const noexcept;
  // Removes the notes: the test had no outcome for reasons unrelated to the kernel.
  void withdraw_attempt() const noexcept;
  // Stores the outcome. If that fails, the next process tests again.
  void store(const SelfTestOutcome& outcome) const noexcept;
  // Empty if the Context has no cache folder.
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::string body() const;
  void write(std::string_view body) const noexcept;

  std::string heading_;
  std::filesystem::path path_;
};

// An outcome in a Context's cache folder, for a report.
struct StoredSelfTest {
  std::string kernel;   // "matrix_unit"
  std::string options;  // of its program
  std::string outcome;  // passed, failed; unfinished: a process has begun the test
  std::string complaint;
};

// The outcomes for the Context's device and driver, by kernel and options; empty without a folder.
// Kernels whose text has changed since are among them. Unreadable files are left out.
std::vector<StoredSelfTest> stored_self_tests(const Context& context);

}  // namespace clora
