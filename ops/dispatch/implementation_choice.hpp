// One choice among the implementations of a family: which ones it may take, and a record of it.
//
// ContextConfig::implementations, "gemm:portable,attention:flash", forces an implementation for all
// problems of a family; self-tests ignore it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/context.hpp"

namespace clora {

// The reason for passing over an implementation whose self-test has failed, or did not run because
// another kernel is under test.
inline constexpr const char* kNotPassed = "it has not passed its self-test";

// An implementation that was considered. The reason is empty if it was taken.
struct ConsideredImplementation {
  std::string name;
  std::string file;
  std::string reason;
};
struct MadeChoice {
  std::string family;
  std::vector<ConsideredImplementation> considered;  // in the order of the list; the last was taken
};

// Records the choices of a Context while it exists, except those of self-tests. At most one per
// Context. Threads: those of the Context.
class ChoiceLog {
 public:
  explicit ChoiceLog(Context& context);
  ~ChoiceLog();
  ChoiceLog(const ChoiceLog&) = delete;
  ChoiceLog& operator=(const ChoiceLog&) = delete;
  const std::vector<MadeChoice>& choices() const noexcept { return choices_; }
  void clear() noexcept { choices_.clear(); }

 private:
  friend class ImplementationChoice;
  Context& context_;
  std::vector<MadeChoice> choices_;
};

class ImplementationChoice {
 public:
  // Errors: invalid_argument if ContextConfig::implementations names an unknown family.
  ImplementationChoice(Context& context, std::string_view family);

  bool allows(std::string_view name) const { return forced_.empty() || name == forced_; }
  // reason: null if the implementation is taken.
  void note(std::string_view name, std::string_view file, const char* reason);
  // No implementation can be taken, since the forced one does not exist or does not support the
  // problem. `valid` are those that do. Errors: always invalid_argument.
  [[noreturn]] void fail(std::span<const std::string_view> all,
                         std::span<const std::string_view> valid) const;

 private:
  std::string_view family_;
  std::string_view forced_;  // empty: none
  ChoiceLog* log_ = nullptr;
  MadeChoice made_;
  std::string reason_;  // for which the forced implementation was not taken
};

// The families and implementations of "gemm:portable,attention:flash". Errors: invalid_argument if
// it has another form or names an unknown family or one twice.
struct ForcedImplementation {
  std::string family;
  std::string name;
};
std::vector<ForcedImplementation> forced_implementations(std::string_view text);

}  // namespace clora
