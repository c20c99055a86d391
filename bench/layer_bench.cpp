// layer/FORM/q4_1/1x576/r8/HOW: the feed-forward half of a decode layer of SmolLM2-135M, one row.
// FORM is fused, or unfused (the adapter's products separate from the base's). HOW is batched, or
// wait_each: with a wait after every launch. The variants alternate.
#include <fmt/format.h>

#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "bench/support/turns.hpp"
#include "bench/support/values.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kWidth = 576, kFeed = 1536, kRank = 8;

// y = x + down(swiglu(gate(norm(x)), up(norm(x)))), each product with its adapter.
class FeedForward {
 public:
  FeedForward(Context& context, bool fused) : context_(&context), batch_(context), fused_(fused) {
    const auto upload = [&](Shape shape, std::uint32_t seed) {
      const auto count = static_cast<std::size_t>(shape.elements());
      return context.upload<float>(shape, DType::f32, random_values(count, seed),
                                   MemoryTag::scratch);
    };
    const auto of = [&](std::int64_t n, std::int64_t k, std::uint32_t seed) {
      return Linear{{test::random_weights(DType::q4_1, n, k, seed).upload(context), {}},
                    {upload({kRank, k}, seed + 1), upload({kRank, n}, seed + 2), 1, {}}};
    };
    const Tensor x = upload({1, kWidth}, 1);
    const Tensor normed = temporary(kWidth, "normed");
    record_rms_norm(batch_, normed, x, upload({kWidth}, 2), 1e-5F);
    const Tensor gate = linear(normed, kFeed, of(kFeed, kWidth, 10));
    const Tensor up = linear(normed, kFeed, of(kFeed, kWidth, 20));
    const Tensor inner = temporary(kFeed, "inner");
    record_swiglu(batch_, inner, gate, up);
    output_ = context.allocate({1, kWidth}, DType::f32, MemoryTag::scratch);
    linear_into(output_, inner, of(kWidth, kFeed, 30), x);
    batch_.seal();
  }

  void run() { batch_.submit().wait(); }
  std::vector<float> output() const { return context_->read<float>(output_); }
  std::size_t launches() const { return batch_.commands(); }

 private:
  struct Linear {
    LinearWeights weights;
    LoraWeights lora;
  };

  Tensor temporary(std::int64_t n, std::string_view name) {
    return batch_.temporary({1, n}, DType::f32, name);
  }
  Tensor linear(const Tensor& x, std::int64_t n, const Linear& with) {
    const Tensor y = temporary(n, "y");
    linear_into(y, x, with, {});
    return y;
  }
  void linear_into(const Tensor& y, const Tensor& x, const Linear& with, const Tensor& residual) {
    const Tensor s = temporary(kRank, "s");
    const auto record = fused_ ? record_lora_linear : record_lora_linear_unfused;
    record(batch_, y, s, x, with.weights, with.lora, residual);
  }

  Context* context_;
  Batch batch_;
  bool fused_;
  Tensor output_;
};

std::string name_of(bool fused, bool batched) {
  return fmt::format("layer/{}/q4_1/1x{}/r{}/{}", fused ? "fused" : "unfused", kWidth, kRank,
                     batched ? "batched" : "wait_each");
}

std::vector<Way> layer_ways() {
  std::vector<Way> ways;
  for (const bool fused : {true, false}) {
    for (const bool batched : {true, false}) {
      const auto layer =
          std::make_shared<FeedForward>(batched ? context() : synchronous_context(), fused);
      const auto right = [layer] {
        FeedForward other(context(), false);
        other.run();
        return largest_error(layer->output(), to_double(other.output())) < 1e-4;
      };
      ways.push_back({name_of(fused, batched), [layer] { layer->run(); }, right});
    }
  }
  return ways;
}

TurnsTable table(400, 1, layer_ways);

const bool kAdded = add_family([] {
  for (const bool fused : {true, false}) {
    for (const bool batched : {true, false}) table.add(name_of(fused, batched));
  }
});

}  // namespace
}  // namespace clora::bench
