#include "clora/model/transformer/forward_pass.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "clora/model/generation/generator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::Pointwise;

// The same rows may be summed in another order in a larger product.
constexpr float kRounding = 2e-5F;

std::vector<std::int32_t> some_ids(std::size_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(
        static_cast<std::int32_t>((i * 29 + 7 * (i / 3)) % static_cast<std::size_t>(vocabulary)));
  }
  return ids;
}

// Each architecture of tiny_models(), including one with a sliding window and one with biases.
class ForwardPassOf : public testing::TestWithParam<std::size_t> {
 protected:
  ForwardPassOf() {
    test::write_tiny_model(folder_.path(), test::tiny_models()[GetParam()].config);
    open_ = std::make_unique<test::OpenModel>(folder_.path());
    adapter_ = std::make_unique<Adapter>(context(), adapter_sites(model().config()),
                                         AdapterConfig{.rank = 3});
    std::uint32_t seed = 1;
    for (const AdapterModule& module : adapter_->modules()) {
      const LoraWeights weights = adapter_->weights(module.site.path);
      for (const Tensor& matrix : {weights.a, weights.bt}) fill(matrix, seed++);
    }
  }
  void fill(const Tensor& tensor, std::uint32_t seed) {
    const auto values =
        test::random_values(static_cast<std::size_t>(tensor.elements()), seed, 0.2F);
    context().write(tensor, std::as_bytes(std::span(values)));
  }
  LanguageModel& model() { return open_->model; }
  Context& context() { return open_->model.context(); }
  std::int64_t vocabulary() { return model().config().vocabulary; }

  test::TemporaryFolder folder_;
  std::unique_ptr<test::OpenModel> open_;
  std::unique_ptr<Adapter> adapter_;
};
INSTANTIATE_TEST_SUITE_P(TinyModels, ForwardPassOf, testing::Values(0U, 1U, 2U, 3U),
                         [](const auto& test) { return test::tiny_models()[test.param].name; });

TEST_P(ForwardPassOf, AgreesWithTheGeneratorOnTheRowOfEveryToken) {
  const auto ids = some_ids(19, vocabulary());
  for (const Adapter* adapter :
       {static_cast<const Adapter*>(nullptr), static_cast<const Adapter*>(adapter_.get())}) {
    ForwardPass pass(model(), adapter);
    Generator generator(model(), adapter, 64);
    const std::vector<float> all = pass.logits(ids);
    ASSERT_EQ(all.size(), ids.size() * static_cast<std::size_t>(vocabulary()));
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const auto row = std::span(all).subspan(t * static_cast<std::size_t>(vocabulary()),
                                              static_cast<std::size_t>(vocabulary()));
      const std::vector<float> want = generator.logits(std::span(ids).first(t + 1));
      EXPECT_THAT(std::vector<float>(row.begin(), row.end()),
                  Pointwise(testing::FloatNear(kRounding), want))
          << "token " << t;
    }
  }
}

TEST_P(ForwardPassOf, GivesTheLastRowAlone) {
  for (const std::size_t count : {1U, 2U, 16U, 17U, 41U}) {
    const auto ids = some_ids(count, vocabulary());
    ForwardPass pass(model(), adapter_.get());
    const std::vector<float> all = pass.logits(ids, LogitRows::all);
    const std::vector<float> want(all.end() - vocabulary(), all.end());
    EXPECT_THAT(pass.logits(ids, LogitRows::last), Pointwise(testing::FloatNear(kRounding), want))
        << count << " tokens";
  }
}

// -log softmax(row)[target]
double loss_of(std::span<const float> row, std::int32_t target) {
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit));
  return std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(target)]);
}

TEST_P(ForwardPassOf, GivesTheLossThatTheEvaluatorFinds) {
  const auto ids = some_ids(23, vocabulary());
  Records records;
  records.records.push_back(Record{ids, std::vector<std::uint8_t>(ids.size(), 1)});
  const EvalResult want = Evaluator(model(), adapter_.get()).evaluate(records);
  const std::vector<float> logits = ForwardPass(model(), adapter_.get()).logits(ids);
  const auto width = static_cast<std::size_t>(vocabulary());
  double sum = 0;
  for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
    sum += loss_of(std::span(logits).subspan(t * width, width), ids[t + 1]);
  }
  EXPECT_NEAR(sum / static_cast<double>(ids.size() - 1), want.loss, 1e-5);
}

// ---- Hidden states

// The stored values of a weight of f32.
std::vector<double> weight(const WeightFiles& files, const char* name) {
  const WeightView view = files.find(name).value();
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return {values.begin(), values.end()};
}

TEST_P(ForwardPassOf, TheLastHiddenStatesGiveTheLogits) {
  const auto ids = some_ids(19, vocabulary());
  ForwardPass pass(model(), adapter_.get());
  const std::vector<float> hidden = pass.hidden_states(ids, model().config().layers);
  const std::vector<float> logits = pass.logits(ids);
  const std::vector<double> head = weight(open_->files, "lm_head.weight");
  const auto D = static_cast<std::size_t>(model().config().hidden_size);
  const auto V = static_cast<std::size_t>(vocabulary());
  ASSERT_EQ(hidden.size(), ids.size() * D);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t v = 0; v < V; ++v) {
      double sum = 0;
      for (std::size_t d = 0; d < D; ++d) {
        sum += static_cast<double>(hidden[t * D + d]) * head[v * D + d];
      }
      ASSERT_NEAR(logits[t * V + v], sum, 1e-4) << "token " << t << ", logit " << v;
    }
  }
}

TEST_P(ForwardPassOf, TheFirstHiddenStatesAreTheEmbeddings) {
  const auto ids = some_ids(19, vocabulary());
  const std::vector<float> hidden = ForwardPass(model(), adapter_.get()).hidden_states(ids, 0);
  const std::vector<double> table = weight(open_->files, "model.embed_tokens.weight");
  const auto D = static_cast<std::size_t>(model().config().hidden_size);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t d = 0; d < D; ++d) {
      ASSERT_EQ(hidden[t * D + d], table[static_cast<std::size_t>(ids[t]) * D + d]);
    }
  }
}

// A model of the first block alone has a final norm after it.
TEST_P(ForwardPassOf, HiddenStatesInBetweenAreThoseOfAShorterModel) {
  ModelConfig config = test::tiny_models()[GetParam()].config;
  config.layers = 1;
  test::write_tiny_model(folder_ / "short", config);
  test::OpenModel shorter(folder_ / "short");
  const auto ids = some_ids(19, vocabulary());
  const std::vector<float> got = ForwardPass(model(), nullptr).hidden_states(ids, 1);
  const std::vector<float> want = ForwardPass(shorter.model, nullptr).hidden_states(ids, 1);
  const std::vector<double> norm = weight(shorter.files, "model.norm.weight");
  const std::size_t D = norm.size();
  for (std::size_t t = 0; t < ids.size(); ++t) {
    double squares = 0;
    for (std::size_t d = 0; d < D; ++d) squares += std::pow(got[t * D + d], 2);
    const double rms = std::sqrt(squares / static_cast<double>(D) + config.norm_epsilon);
    for (std::size_t d = 0; d < D; ++d) {
      const double normed = static_cast<double>(got[t * D + d]) / rms * norm[d];
      ASSERT_NEAR(normed, want[t * D + d], 1e-4) << "token " << t << ", element " << d;
    }
  }
}

class ForwardPassFirst : public ForwardPassOf {};
INSTANTIATE_TEST_SUITE_P(Llama, ForwardPassFirst, testing::Values(0U));

TEST_P(ForwardPassFirst, EnqueuesCallAfterCallWithoutWaitingAndFillsEachOutput) {
  ForwardPass pass(model(), adapter_.get());
  std::vector<Tensor> outputs;
  std::vector<std::vector<std::int32_t>> texts;
  for (const std::size_t count : {5U, 9U, 5U, 1U, 9U, 5U}) {
    texts.push_back(some_ids(count + texts.size(), vocabulary()));
    texts.back().resize(count);
    texts.back()[0] = static_cast<std::int32_t>(texts.size());  // each text is different
    outputs.push_back(context().allocate({static_cast<std::int64_t>(count), vocabulary()},
                                         DType::f32, MemoryTag::scratch));
    pass.enqueue(outputs.back(), texts.back(), LogitRows::all);
  }
  ForwardPass fresh(model(), adapter_.get());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(context().read<float>(outputs[i]), fresh.logits(texts[i])) << "call " << i;
  }
}

TEST_P(ForwardPassFirst, TheFencePassesWhenTheOutputIsThere) {
  ForwardPass pass(model(), nullptr);
  const auto ids = some_ids(7, vocabulary());
  const Tensor out = context().allocate({1, vocabulary()}, DType::f32, MemoryTag::scratch);
  const Fence first = pass.enqueue(out, ids, LogitRows::last);
  const std::array<cl_event, 1> events{first.event()};
  const Fence second = pass.enqueue(out, ids, LogitRows::last, events);
  second.wait();
  EXPECT_TRUE(first.passed());
  EXPECT_TRUE(second.passed());
  EXPECT_EQ(context().read<float>(out), pass.logits(ids, LogitRows::last));
}

TEST_P(ForwardPassFirst, DropsOldRecordingsWhenManyLengthsOccur) {
  ForwardPass pass(model(), nullptr);
  const auto ids = some_ids(12, vocabulary());
  const auto run = [&](std::size_t count) { return pass.logits(std::span(ids).first(count)); };
  const std::vector<float> want = run(12);
  for (const std::size_t count : {11U, 10U, 9U}) run(count);
  const std::size_t of_four = context().pool().statistics().in_use_bytes;
  for (std::size_t count = 1; count <= 8; ++count) run(count);
  EXPECT_LE(context().pool().statistics().in_use_bytes, of_four);
  EXPECT_EQ(run(12), want);
}

TEST_P(ForwardPassFirst, RefusesWhatItCannotRun) {
  ForwardPass pass(model(), nullptr);
  EXPECT_THAT(error_of([&] { pass.logits({}); }), HasSubstr("at least one token"));
  const std::vector<std::int32_t> outside{1, static_cast<std::int32_t>(vocabulary())};
  EXPECT_THAT(error_of([&] { pass.logits(outside); }), HasSubstr("ids must be in [0, 67), got 67"));
  const std::vector<std::int32_t> negative{-1};
  EXPECT_THAT(error_of([&] { pass.logits(negative); }), HasSubstr("got -1"));
  EXPECT_THAT(error_of([&] { pass.hidden_states(some_ids(2, 9), 3); }),
              HasSubstr("those after 0 to 2 blocks, got 3"));
  const Tensor small = context().allocate({1, vocabulary()}, DType::f32, MemoryTag::scratch);
  const auto ids = some_ids(2, vocabulary());
  EXPECT_THAT(error_of([&] { pass.enqueue(small, ids, LogitRows::all); }),
              HasSubstr("out must be f32 [2, 67]"));
}

}  // namespace
}  // namespace clora
