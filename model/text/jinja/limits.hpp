// What a template may use: nesting, work and memory. A template is a text of unknown origin, so
// parsing and rendering are bounded, whatever it says.
//
// WorkBudget counts what one rendering has used, and throws Error(invalid_argument) beyond the
// limits. Used by one thread.
#pragma once

#include <cstddef>

#include "runtime/fail.hpp"

namespace clora::jinja {

struct Limits {
  std::size_t template_bytes = std::size_t{4} << 20U;
  std::size_t syntax_depth = 200;  // of nested expressions and statements in the template
  std::size_t call_depth = 800;    // of nested evaluations: expressions, statements, macros
  std::size_t steps = 20'000'000;  // evaluated nodes and visited elements
  std::size_t text_bytes = std::size_t{64} << 20U;    // of one text, and of the output
  std::size_t total_bytes = std::size_t{512} << 20U;  // of all texts that a rendering makes
};

class WorkBudget {
 public:
  explicit WorkBudget(const Limits& limits) : limits_(limits) {}

  const Limits& limits() const noexcept { return limits_; }

  void step(std::size_t count = 1) {
    steps_ += count;
    require(steps_ <= limits_.steps && count <= limits_.steps,
            "the template takes more than {} steps", limits_.steps);
  }

  // Before a text of this size is made.
  void text(std::size_t bytes) {
    require(bytes <= limits_.text_bytes, "a text of the template has more than {} bytes",
            limits_.text_bytes);
    bytes_ += bytes;
    require(bytes_ <= limits_.total_bytes, "the template makes texts of more than {} bytes in all",
            limits_.total_bytes);
    step(1 + bytes / 256);
  }

  // Entered by every evaluation; the destructor leaves it.
  class Level {
   public:
    explicit Level(WorkBudget& budget) : budget_(budget) {
      require(budget.depth_ < budget.limits_.call_depth,
              "the template nests evaluations deeper than {}; a macro may call itself without end",
              budget.limits_.call_depth);
      ++budget.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    WorkBudget& budget_;
  };

 private:
  const Limits limits_;
  std::size_t steps_ = 0, bytes_ = 0, depth_ = 0;
};

}  // namespace clora::jinja
