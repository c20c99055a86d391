// Models whose matrices exceed the device's largest allocation, against the same models on the same
// device without that limit: loss, gradients, logits and generated tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "tests/reference/quant_reference.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"
#include "tests/support/tiny_training.hpp"

namespace clora {
namespace {

// Sizes for which a matrix is larger than the activations of a step of 32 rows.
constexpr std::int64_t kVocabulary = 512, kHidden = 256, kIntermediate = 512;
constexpr std::size_t kRows = 32;
constexpr std::size_t kKiB = 1024;

// A model on a Context of its own; max_allocation_bytes 0: that of the device.
struct LoadedModel {
  LoadedModel(const std::filesystem::path& path, Variant variant, std::size_t max_allocation_bytes)
      : files(WeightFiles::open(path)),
        context(config_of(variant, max_allocation_bytes)),
        model(context, files) {}

  static ContextConfig config_of(Variant variant, std::size_t max_allocation_bytes) {
    ContextConfig config = config_from_environment();
    config.variant = variant;
    config.max_allocation_bytes = max_allocation_bytes;
    config.weight_copy_share = 0;  // both have the same bytes
    config.self_test = false;      // a broken kernel must fail the test, not be replaced
    return config;
  }

  WeightFiles files;
  Context context;
  LanguageModel model;
};

PackedRows rows_of_text() {
  Record record;
  for (std::size_t i = 0; i < kRows; ++i) {
    record.ids.push_back(static_cast<std::int32_t>((i * 97 + 3) % kVocabulary));
    record.is_target.push_back(i == 0 ? 0 : 1);
  }
  return pack_rows(std::span(&record, 1), kRows);
}

struct Results {
  double loss = 0, evaluated = 0;
  std::vector<float> gradients, logits;
  std::vector<std::int32_t> ids;
};

// A training step and a generation, with an adapter on each layer.
Results run(LanguageModel& model) {
  Results results;
  Context& context = model.context();
  Adapter adapter(context, adapter_sites(model.config()), {.rank = 2});
  const auto count = static_cast<std::size_t>(adapter.parameters().elements());
  const std::vector<float> parameters = test::random_values(count, 5, 0.05F);
  context.write(adapter.parameters(), std::as_bytes(std::span(parameters)));
  const PackedRows rows = rows_of_text();
  Evaluator evaluator(model, &adapter);
  results.evaluated = evaluator.loss_sum(rows);
  Generator generator(model, &adapter, 40);
  const std::vector<std::int32_t> prompt{3, 500, 64, 63, 200, 191, 192, 7};
  results.logits = generator.logits(prompt);
  results.ids = generator.generate(prompt, {.max_tokens = 12}).ids;
  Trainer trainer(model, adapter, {});
  (void)trainer.step(std::span(&rows, 1), 1e-3);
  results.loss = trainer.drain().value().loss;
  results.gradients = context.read<float>(adapter.flat_gradients());
  return results;
}

// `tolerance` is relative. The order of the sums differs in dx, which is a sum over parts, and
// products of parts may use kernels for fewer columns.
void expect_same(const Results& got, const Results& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * want.loss);
  EXPECT_NEAR(got.evaluated, want.evaluated, tolerance * want.evaluated);
  test::expect_close(got.logits, test::to_double(want.logits), tolerance, "logits");
  test::expect_close(got.gradients, test::to_double(want.gradients), 4 * tolerance, "gradients");
  EXPECT_EQ(got.ids, want.ids);
}

// The matrices of these models have no more rows than a part of some GPUs.
#define SKIP_IF_PARTS_ARE_LARGE(device)                                                            \
  if (part_row_step(device) > 64) {                                                                \
    GTEST_SKIP() << "parts of this device have multiples of " << part_row_step(device) << " rows"; \
  }

void expect_same_in_parts(const std::filesystem::path& path, Variant variant,
                          std::size_t max_allocation_bytes) {
  LoadedModel whole(path, variant, 0);
  SKIP_IF_PARTS_ARE_LARGE(whole.context.device());
  LoadedModel parts(path, variant, max_allocation_bytes);
  EXPECT_FALSE(whole.model.embeddings().is_split());
  EXPECT_TRUE(parts.model.embeddings().is_split());
  EXPECT_TRUE(parts.model.head().is_split());
  for (const AdapterSite& site : adapter_sites(parts.model.config())) {
    if (!site.path.starts_with("model.layers.0.mlp.")) continue;
    EXPECT_TRUE(parts.model.linear(site.path).weights.w.is_split()) << site.path;
  }
  EXPECT_EQ(parts.model.weight_bytes(), whole.model.weight_bytes());
  expect_same(run(parts.model), run(whole.model), 2e-5);
}

struct StoredType {
  DType type;
  std::uint32_t ggml_type;
  std::size_t max_allocation_bytes;
};

// A GGUF model of one layer whose matrices are stored in the type. Rows of q and k are reordered.
// Norms are small, since elements of some types are large: softmax must not saturate, which would
// make gradients depend on the order of sums.
std::string gguf_model(const StoredType& stored) {
  test::GgufBytes gguf_bytes = test::one_layer_llama(
      {.hidden_size = kHidden, .intermediate_size = kIntermediate, .context_length = 64}, 1e-5F);
  std::uint32_t seed = 7;
  const auto vector = [&](std::string_view name) {
    std::string bytes;
    for (const float value : test::random_values(kHidden, ++seed)) {
      test::append_scalar(bytes, 0.02F + 0.002F * value);
    }
    gguf_bytes.add_tensor(name, {kHidden}, 0, bytes);
  };
  const auto matrix = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
    const auto w = test::random_weights(stored.type, rows, columns, ++seed);
    gguf_bytes.add_tensor(name,
                          {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)},
                          stored.ggml_type, std::string(w.bytes.begin(), w.bytes.end()));
  };
  matrix("token_embd.weight", kVocabulary, kHidden);
  for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
    vector(fmt::format("{}.weight", name));
  }
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    matrix(fmt::format("blk.0.{}.weight", name), kHidden, kHidden);
  }
  matrix("blk.0.ffn_gate.weight", kIntermediate, kHidden);
  matrix("blk.0.ffn_up.weight", kIntermediate, kHidden);
  matrix("blk.0.ffn_down.weight", kHidden, kIntermediate);
  return gguf_bytes.bytes();
}

class WeightParts : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Variants, WeightParts,
                         testing::Values(Variant::automatic, Variant::portable),
                         test::variant_name);

void expect_same_in_parts(const StoredType& stored, Variant variant) {
  SCOPED_TRACE(name_of(stored.type));
  const test::TemporaryFolder folder;
  test::write_file(folder / "m.gguf", gguf_model(stored));
  expect_same_in_parts(folder / "m.gguf", variant, stored.max_allocation_bytes);
}

TEST_P(WeightParts, GiveTheSameResultsInEachKindOfStorageType) {
  for (const StoredType& stored : {StoredType{DType::f32, 0, 128 * kKiB},
                                   {DType::bf16, 30, 128 * kKiB},
                                   {DType::q4_1, 3, 72 * kKiB},
                                   {DType::q8_0, 8, 72 * kKiB}}) {
    expect_same_in_parts(stored, GetParam());
  }
}

// The others, with the device's own kernels only: the portable ones need seconds for each.
TEST(WeightPartsOfTheDevice, GiveTheSameResultsInTheOtherStorageTypes) {
  for (const StoredType& stored : {StoredType{DType::f16, 1, 128 * kKiB},
                                   {DType::q4_0, 2, 68 * kKiB},
                                   {DType::q5_0, 6, 72 * kKiB},
                                   {DType::q5_1, 7, 72 * kKiB},
                                   {DType::q4_k, 12, 68 * kKiB},
                                   {DType::q5_k, 13, 72 * kKiB},
                                   {DType::q6_k, 14, 72 * kKiB}}) {
    expect_same_in_parts(stored, Variant::automatic);
  }
}

// A stack of experts' matrices, which is one tensor and has no parts.
bool has_stack_beyond(const ModelConfig& config, std::size_t allocation_bytes) {
  return std::ranges::any_of(config.blocks, [&](const BlockSpec& block) {
    return std::ranges::any_of(block, [&](const SubLayerSpec& layer) {
      const auto* experts = std::get_if<ExpertsLayerSpec>(&layer.f);
      if (experts == nullptr) return false;
      const LinearSpec& one = experts->gate.front();
      return 4 * static_cast<std::size_t>(experts->experts() * one.outputs * one.inputs) >
             allocation_bytes;
    });
  });
}

// Biases, normalised heads, a sliding window, an untied head.
TEST_P(WeightParts, GiveTheSameResultsInEveryArchitecture) {
  for (auto& [name, config] : test::tiny_models()) {
    SCOPED_TRACE(name);
    config.hidden_size = kHidden;
    config.intermediate_size = kIntermediate;
    config.vocabulary = kVocabulary;
    config.head_dim = 64;
    const test::TemporaryFolder folder;
    test::write_tiny_model(folder.path(), config);
    if (has_stack_beyond(WeightFiles::open(folder.path()).config(), 128 * kKiB)) {
      SKIP_IF_PARTS_ARE_LARGE(test::context_of(GetParam()).device());
      EXPECT_THAT(test::error_of([&] { LoadedModel(folder.path(), GetParam(), 128 * kKiB); }),
                  testing::HasSubstr("matrices of experts such as"));
      continue;
    }
    expect_same_in_parts(folder.path(), GetParam(), 128 * kKiB);
  }
}

TEST_P(WeightParts, OfAnActivationAreRefusedWithWhatToLower) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "m.gguf", gguf_model({DType::f32, 0, 0}));
  SKIP_IF_PARTS_ARE_LARGE(test::context_of(GetParam()).device());
  LoadedModel loaded(folder / "m.gguf", GetParam(), 128 * kKiB);
  Record record;
  record.ids.assign(100, 1);
  record.is_target.assign(100, 1);
  Evaluator evaluator(loaded.model, nullptr);
  const std::string message = test::error_of(
      [&] { (void)evaluator.loss_sum(pack_rows(std::span(&record, 1), record.ids.size())); });
  EXPECT_NE(message.find("exceeds the device's largest allocation of 128 KiB"), std::string::npos)
      << message;
  EXPECT_NE(message.find("lower `batch_size` or `max_seq_length`"), std::string::npos) << message;
}

}  // namespace
}  // namespace clora
