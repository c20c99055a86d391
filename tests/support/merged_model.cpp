#include "tests/support/merged_model.hpp"

#include <gtest/gtest.h>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/transformer/forward_pass.hpp"
#include "clora/model/weights/fuse.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/peft_steps.hpp"

namespace clora::test {

void expect_same_as_merged(OpenModel& open, const Adapter& adapter,
                           const std::filesystem::path& folder) {
  write_fused_model(open.files, adapter, folder);
  OpenModel fused(folder);
  const std::int64_t vocabulary = open.model.config().vocabulary;
  const auto ids = document(13, 0, vocabulary).ids;
  const auto want = to_double(ForwardPass(fused.model, nullptr).logits(ids));
  expect_logits(ForwardPass(open.model, &adapter).logits(ids), want, 1e-4);
  const auto reply = Generator(fused.model, nullptr, 64).generate(ids, {.max_tokens = 8}).ids;
  EXPECT_EQ(Generator(open.model, &adapter, 64).generate(ids, {.max_tokens = 8}).ids, reply);
  const PackedRows rows = two_documents(vocabulary);
  const double loss = Evaluator(fused.model, nullptr).loss_sum(rows);
  EXPECT_NEAR(Evaluator(open.model, &adapter).loss_sum(rows), loss, 1e-4 * loss);
}

}  // namespace clora::test
