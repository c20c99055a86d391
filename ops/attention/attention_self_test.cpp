#include "ops/attention/attention_self_test.hpp"

#include <vector>

namespace clora {
namespace {

constexpr std::int32_t kDocument = 21;  // first key of the second document
constexpr std::int64_t kPage = 16;

// The pages of the keys in reverse order, for every second row; other rows have them in order.
KeyPages pages(SelfTest& test, std::int64_t rows, std::int64_t keys) {
  const auto count = static_cast<std::size_t>(keys / kPage);
  std::vector<std::int32_t> tables(2 * count), table_of(static_cast<std::size_t>(rows));
  for (std::size_t page = 0; page < count; ++page) {
    tables[page] = static_cast<std::int32_t>(page);
    tables[2 * count - 1 - page] = static_cast<std::int32_t>(page);
  }
  for (std::size_t row = 0; row < table_of.size(); ++row) {
    table_of[row] = static_cast<std::int32_t>(row % 2);
  }
  return {.tables = test.input({2, keys / kPage}, tables),
          .table_of = test.input({rows}, table_of),
          .positions = kPage};
}

}  // namespace

AttentionInputs attention_test_inputs(SelfTest& test, const TestedAttention& tested) {
  const auto [rows, keys, width, type, key_type, scores, in_pages, has_short_row] = tested;
  constexpr std::int64_t kHeads = 4, kKeyHeads = 2;
  std::vector<std::int32_t> first(static_cast<std::size_t>(rows), 0);
  std::vector<std::int32_t> last(first.size());
  for (std::size_t t = 0; t < last.size(); ++t) {
    last[t] = static_cast<std::int32_t>(keys - rows) + static_cast<std::int32_t>(t);
    if (last[t] >= kDocument) first[t] = kDocument;
  }
  if (has_short_row) first[0] = last[0] - 2;
  // Other inputs with a cap, whose results have other sums (ops/dispatch/self_test_sums.hpp).
  return {.q = test.input({rows, kHeads, width}, scores.soft_cap == 0 ? 1.0F : 2.0F, type),
          .k = test.input({keys, kKeyHeads, width}, 1, key_type),
          .v = test.input({keys, kKeyHeads, width}, 1, key_type),
          .first = test.input({rows}, first),
          .last = test.input({rows}, last),
          .scale = 0.25F,
          .soft_cap = scores.soft_cap,
          .bias = scores.has_bias ? test.input({kHeads, 2 * rows - 1}) : Tensor(),
          .pages = in_pages ? pages(test, rows, keys) : KeyPages()};
}

void test_attention(SelfTest& test, const TestedAttention& tested) {
  const AttentionInputs in = attention_test_inputs(test, tested);
  record_attention(test.batch(), test.output(in.q.shape(), tested.type),
                   test.output({tested.rows, in.q.shape()[1]}), in);
}

void test_attention_backward(SelfTest& test, std::int64_t rows, std::int64_t width, DType type,
                             const ScoreChanges& scores) {
  const AttentionInputs in = attention_test_inputs(test, {rows, rows, width, type, type, scores});
  const Tensor y = test.input(in.q.shape(), 1, type);
  const Tensor log_sum_exp = test.input({rows, in.q.shape()[1]});
  record_attention_backward(test.batch(),
                            {test.output(in.q.shape(), type), test.output(in.k.shape(), type),
                             test.output(in.k.shape(), type)},
                            test.input(in.q.shape(), 1, type), y, log_sum_exp, in);
}

}  // namespace clora
