// attention of rows that attend to rows after them: to their whole document, or to a window.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::in_windows;
using test::kHeadDims;
using test::kHeads;
using test::Problem;
using test::whole_documents;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

TEST_P(Attention, MatchesTheFormulaForRowsThatAttendToTheirWholeDocument) {
  for (const auto& [H, G, E] : kHeads) {
    const Problem p = whole_documents({31, 1, 70, 2, 33}, H, G, E);
    check_forward(p, fmt::format("H {} G {} E {}", H, G, E));
    check_backward(p, fmt::format("H {} G {} E {}", H, G, E));
  }
  for (const std::size_t length : {2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 131, 300}) {
    for (const std::size_t E : kHeadDims) {
      check_backward(whole_documents({length}, 3, 1, E), fmt::format("{} rows, E {}", length, E));
    }
  }
}

// Documents begin and end anywhere in a block, a chunk, and the keys that a kernel stages at once.
TEST_P(Attention, BackwardMatchesTheFormulaForWholeDocumentsAcrossChunks) {
  for (const std::size_t E : kHeadDims) {
    const std::string what = fmt::format("across chunks, E {}", E);
    check_backward(whole_documents({100, 1, 250, 3, 120}, 2, 1, E), what);
    check_backward(in_windows({100, 1, 250, 3, 120}, 70, 2, 1, E), "windows " + what);
  }
  check_backward(whole_documents({1824, 516}, 1, 1, 32), "many rows");
  check_backward(whole_documents({70, 90}, 6, 1, 32), "six heads of one key head");
  Problem capped = whole_documents({31, 1, 70, 2, 133}, 4, 2, 32);
  capped.soft_cap = 0.7F;
  check_backward(capped, "with a soft cap");
}

}  // namespace
}  // namespace clora
