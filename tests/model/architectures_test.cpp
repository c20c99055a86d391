// Compares every architecture with a transformer written in double: logits by chunks and token by
// token, and the hand-written backward against central differences.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "tests/reference/transformer_reference.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::ReferenceTransformer;

std::vector<std::int32_t> some_ids(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int32_t>((i * 37 + 11) % static_cast<std::size_t>(vocabulary));
  }
  return ids;
}

std::vector<double> last_row(const test::Matrix& logits, std::int64_t vocabulary) {
  return {logits.end() - vocabulary, logits.end()};
}

class Architectures : public testing::TestWithParam<test::TinyModel> {
 protected:
  void SetUp() override {
    test::write_tiny_model(folder_.path(), GetParam().config);
    open_ = std::make_unique<test::OpenModel>(folder_.path());
    reference_ = std::make_unique<ReferenceTransformer>(open_->files);
  }

  // An adapter with values in a and b. The reference gets the same values.
  Adapter random_adapter() {
    Adapter adapter(open_->model.context(), adapter_sites(open_->model.config()), {.rank = 3});
    std::uint32_t seed = 50;
    for (const AdapterModule& module : adapter.modules()) {
      const LoraWeights weights = adapter.weights(module.site.path);
      test::ReferenceLora lora{
          .rank = module.rank, .scale = static_cast<double>(module.scale), .a = {}, .bt = {}};
      lora.a = fill(weights.a, ++seed);
      lora.bt = fill(weights.bt, ++seed);
      reference_->loras[module.site.path] = lora;
    }
    return adapter;
  }

  test::Matrix fill(const Tensor& tensor, std::uint32_t seed) {
    const auto values =
        test::random_values(static_cast<std::size_t>(tensor.elements()), seed, 0.2F);
    open_->model.context().write(tensor, std::as_bytes(std::span(values)));
    return test::to_double(values);
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<test::OpenModel> open_;
  std::unique_ptr<ReferenceTransformer> reference_;
};

TEST_P(Architectures, GiveTheReferencesLogits) {
  const std::int64_t vocabulary = open_->model.config().vocabulary;
  Generator generator(open_->model, nullptr, 256);
  for (const std::size_t length : {1U, 2U, 17U, 83U}) {  // below, at and across chunk sizes
    const auto ids = some_ids(length, vocabulary);
    test::expect_logits(generator.logits(ids), last_row(reference_->logits(ids), vocabulary), 1e-5);
  }
}

TEST_P(Architectures, GiveTheReferencesLogitsWithAnAdapterAndOthersWithout) {
  const std::int64_t vocabulary = open_->model.config().vocabulary;
  const auto ids = some_ids(21, vocabulary);
  const std::vector<double> base = last_row(reference_->logits(ids), vocabulary);
  const Adapter adapter = random_adapter();
  const std::vector<double> adapted = last_row(reference_->logits(ids), vocabulary);
  Generator generator(open_->model, &adapter, 64);
  test::expect_logits(generator.logits(ids), adapted, 1e-5);
  EXPECT_NE(base, adapted);
}

TEST_P(Architectures, DecodeTokenByTokenAsTheReferenceWouldChoose) {
  const std::int64_t vocabulary = open_->model.config().vocabulary;
  std::vector<std::int32_t> ids = some_ids(5, vocabulary);
  Generator generator(open_->model, nullptr, 64);
  const Generation got = generator.generate(ids, {.max_tokens = 12});
  ASSERT_EQ(got.ids.size(), 12U);
  for (const std::int32_t id : got.ids) {
    const std::vector<double> row = last_row(reference_->logits(ids), vocabulary);
    EXPECT_EQ(id, std::ranges::max_element(row) - row.begin());
    ids.push_back(id);
  }
}

TEST_P(Architectures, HaveTheGradientsThatCentralDifferencesGive) {
  const ModelConfig& config = open_->model.config();
  Adapter adapter = random_adapter();
  Record record{.ids = some_ids(11, config.vocabulary), .is_target = {}};
  record.is_target.assign(11, 1);
  record.is_target[0] = record.is_target[4] = 0;
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 11);
  Trainer trainer(open_->model, adapter, {});
  trainer.step(std::span(&packed, 1), 0);  // a learning rate of 0 leaves the adapter unchanged
  const std::optional<StepResult> result = trainer.drain();
  ASSERT_TRUE(result.has_value());
  const double tokens = packed.target_count;
  EXPECT_NEAR(result->loss, reference_->loss_sum(record.ids, record.is_target) / tokens, 1e-5);

  for (const AdapterModule& module : adapter.modules()) {
    const LoraGradients gradients = adapter.gradients(module.site.path);
    const auto check = [&](const Tensor& got, test::Matrix test::ReferenceLora::*part) {
      const std::vector<float> values = open_->model.context().read<float>(got);
      test::Matrix& matrix = reference_->loras.at(module.site.path).*part;
      for (std::size_t i = 0; i < matrix.size(); i += 29) {  // each costs two forwards
        constexpr double h = 1e-5;
        const double at = matrix[i];
        matrix[i] = at + h;
        const double above = reference_->loss_sum(record.ids, record.is_target);
        matrix[i] = at - h;
        const double below = reference_->loss_sum(record.ids, record.is_target);
        matrix[i] = at;
        const double want = (above - below) / (2 * h) / tokens;
        EXPECT_NEAR(values[i], want, 2e-6 * (1 + std::abs(want)))
            << module.site.path << " element " << i;
      }
    };
    check(gradients.da, &test::ReferenceLora::a);
    check(gradients.dbt, &test::ReferenceLora::bt);
  }
}

// Loss and gradients of one micro-batch, computed by portable kernels only.
struct PortableStep {
  double loss = 0;
  std::vector<float> gradients;
};

PortableStep portable_step(const WeightFiles& files, DType activations) {
  ContextConfig config = config_from_environment();
  config.variant = Variant::portable;
  config.activations = activations;
  Context context(config);
  LanguageModel model(context, files);
  Adapter adapter(context, adapter_sites(model.config()), {.rank = 3});
  const std::vector<float> values =
      test::random_values(static_cast<std::size_t>(adapter.parameters().elements()), 50, 0.2F);
  context.write(adapter.parameters(), std::as_bytes(std::span(values)));
  Record record{.ids = some_ids(37, model.config().vocabulary),
                .is_target = std::vector<std::uint8_t>(37, 1)};
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 37);
  Trainer trainer(model, adapter, {});
  trainer.step(std::span(&packed, 1), 0);
  const double loss = trainer.drain().value().loss;
  return {loss, context.read<float>(adapter.flat_gradients())};
}

// Uses bf16 activations, as GPUs do whose products round their operands.
TEST_P(Architectures, TrainWithActivationsOfBf16NearlyAsWithThoseOfF32) {
  const PortableStep want = portable_step(open_->files, DType::f32);
  const PortableStep got = portable_step(open_->files, DType::bf16);
  EXPECT_NEAR(got.loss, want.loss, 1e-2 * want.loss);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    error += std::pow(double{got.gradients[i]} - want.gradients[i], 2);
    size += std::pow(double{want.gradients[i]}, 2);
  }
  EXPECT_LT(std::sqrt(error / size), 4e-2);  // a few ulp of bf16, 2^-8
  EXPECT_GT(std::sqrt(error / size), 1e-4) << "nothing was rounded";
}

double loss_of(const WeightFiles& files, Variant variant, DType activations) {
  ContextConfig config = config_from_environment();
  config.variant = variant;
  config.activations = activations;
  Context context(config);
  LanguageModel model(context, files);
  const Record record{.ids = some_ids(37, model.config().vocabulary),
                      .is_target = std::vector<std::uint8_t>(37, 1)};
  const PackedRows packed = pack_rows(std::span<const Record>(&record, 1), 37);
  return Evaluator(model, nullptr).loss_sum(packed);
}

TEST_P(Architectures, EvaluateWithActivationsOfF16NearlyAsWithThoseOfF32) {
  for (const Variant variant : {Variant::portable, Variant::cpu}) {
    if (!test::is_for_this_device(variant)) continue;
    const double want = loss_of(open_->files, variant, DType::f32);
    const double got = loss_of(open_->files, variant, DType::f16);
    EXPECT_NEAR(got, want, 1e-3 * want);  // 2^-10 is an ulp of f16
    EXPECT_NE(got, want) << "nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Architectures, testing::ValuesIn(test::tiny_models()),
                         [](const auto& test) { return test.param.name; });

TEST(Trainer, RefusesActivationsOfF16) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_models().front().config);
  const WeightFiles files = WeightFiles::open(folder.path());
  ContextConfig config = config_from_environment();
  config.activations = DType::f16;
  Context context(config);
  LanguageModel model(context, files);
  Adapter adapter(context, adapter_sites(model.config()), {.rank = 3});
  const std::string message = test::error_of([&] { Trainer trainer(model, adapter, {}); });
  EXPECT_NE(message.find("no loss scaling"), std::string::npos) << message;
}

TEST(Context, RefusesActivationsOfIntegers) {
  ContextConfig config = config_from_environment();
  config.activations = DType::i32;
  const std::string message = test::error_of([&] { Context context(config); });
  EXPECT_NE(message.find("activations must be f32, bf16 or f16, got i32"), std::string::npos);
}

TEST(LanguageModel, ReportsHowMuchMemoryItsWeightsNeed) {
  const test::TemporaryFolder folder;
  test::write_tiny_model(folder.path(), test::tiny_models().front().config);
  const WeightFiles files = WeightFiles::open(folder.path());
  ContextConfig config = config_from_environment();
  config.memory_limit_bytes = 4096;
  Context context(config);
  const std::string message = test::error_of([&] { LanguageModel model(context, files); });
  EXPECT_NE(message.find("the weights need"), std::string::npos) << message;
  EXPECT_NE(message.find("smaller model"), std::string::npos) << message;
}

// A GGUF model of one layer with random weights and the given attention factor of its rope.
std::string gguf_with_attention_factor(float factor) {
  test::GgufBytes gguf_bytes = test::one_layer_llama(
      {.hidden_size = 16, .intermediate_size = 24, .context_length = 64}, 1e-5F);
  gguf_bytes.add_number("llama.rope.scaling.attn_factor", factor);
  std::uint32_t seed = 7;
  const auto add = [&](std::string_view name, std::vector<std::uint64_t> sizes) {
    const std::size_t count = sizes.size() == 2 ? sizes[0] * sizes[1] : sizes[0];
    std::string bytes;
    for (const float value : test::random_values(count, ++seed, 0.8F))
      test::append_scalar(bytes, value);
    gguf_bytes.add_tensor(name, std::move(sizes), 0, bytes);
  };
  add("token_embd.weight", {16, 29});
  for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"})
    add(fmt::format("{}.weight", name), {16});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
    add(fmt::format("blk.0.{}.weight", name), {16, 16});
  add("blk.0.ffn_gate.weight", {16, 24});
  add("blk.0.ffn_up.weight", {16, 24});
  add("blk.0.ffn_down.weight", {24, 16});
  return gguf_bytes.bytes();
}

TEST(GgufRope, HasItsAttentionFactorInEveryScore) {
  const test::TemporaryFolder folder;
  const std::vector<std::int32_t> ids{3, 1, 4, 15, 9, 2, 6};
  std::vector<std::vector<double>> rows;
  for (const float factor : {1.0F, 1.5F}) {
    test::write_file(folder / "m.gguf", gguf_with_attention_factor(factor));
    test::OpenModel open(folder / "m.gguf");
    rows.push_back(last_row(ReferenceTransformer(open.files).logits(ids), 29));
    Generator generator(open.model, nullptr, 64);
    test::expect_logits(generator.logits(ids), rows.back(), 1e-5);
  }
  double moved = 0;
  for (std::size_t i = 0; i < rows[0].size(); ++i)
    moved = std::max(moved, std::abs(rows[0][i] - rows[1][i]));
  EXPECT_GT(moved, 1e-2) << "the factor does not show";
}

// The real pretrained stories260K in every storage type. The reference dequantises the same file.
class StoredTypes : public testing::TestWithParam<std::string> {};

TEST_P(StoredTypes, GiveTheReferencesLogitsAndGreedyTokens) {
  const std::string file = "models/stories260k/stories260K" + GetParam() + ".gguf";
  CLORA_REQUIRE_TEST_DATA(path, file);
  test::OpenModel open(path);
  const ReferenceTransformer reference(open.files);
  const std::int64_t vocabulary = open.model.config().vocabulary;
  std::vector<std::int32_t> ids{1, 403, 407, 261, 378};
  Generator generator(open.model, nullptr, 64);
  test::expect_logits(generator.logits(ids), last_row(reference.logits(ids), vocabulary), 1e-4);
  for (const std::int32_t id : generator.generate(ids, {.max_tokens = 8}).ids) {
    const std::vector<double> row = last_row(reference.logits(ids), vocabulary);
    const double best = *std::ranges::max_element(row);
    EXPECT_LT(best - row[static_cast<std::size_t>(id)], 1e-3) << "token " << id;
    ids.push_back(id);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, StoredTypes, testing::Values("", "-F16", "-Q8_0", "-Q4_0", "-Q4_1"),
                         [](const auto& test) {
                           return test.param.empty() ? "F32" : test.param.substr(1);
                         });

}  // namespace
}  // namespace clora
