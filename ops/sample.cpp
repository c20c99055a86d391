#include "clora/ops/sample.hpp"

#include <array>
#include <bit>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The file, options and grid: a single group does all the work.
struct SampleSpec {
  std::string_view file;
  Defines defines;
  Grid grid;
  std::int64_t weights;  // elements of the scratch row

  SampleSpec(const Context& context, bool cpu, std::int64_t vocabulary) {
    if (cpu) {
      file = "sample_cpu.cl";
      grid = single_item_groups(1);
      weights = round_up(vocabulary, 64);
    } else {
      // A GPU needs as many readers as a group can have; on a CPU items cost more than they read.
      const bool gpu = context.device().kind == DeviceKind::gpu;
      const std::size_t group = reduction_group(context.device(), gpu ? 1024 : 64);
      file = "sample.cl";
      defines.set("GROUP", group);
      grid = groups_of(group, 1);
      weights = vocabulary;
    }
  }
};

std::int64_t vocabulary_of(std::string_view op, const Tensor& logits) {
  require(!logits.empty() && logits.shape().rank() == 1 && logits.elements() > 0,
          "{}: logits must be f32 [V] with V at least 1, got {}", op,
          logits.empty() ? "nothing" : logits.text());
  require_tensor(op, "logits", logits, logits.shape());
  return logits.elements();
}

// Draws with two different settings, the second after the first has marked its token, and then
// takes the largest logit.
void test_sample(SelfTest& test) {
  const std::vector<std::uint32_t> unseen(50, 0);
  const Tensor logits = test.input({200}, 6);
  const Tensor seen = test.changed(test.input({50}, unseen)).slice(0, {200}, DType::u8);
  for (const SampleSettings& settings :
       {SampleSettings{.temperature = 0.8F, .top_k = 30, .seed = 7},
        SampleSettings{.temperature = 1, .top_p = 0.9F, .repetition_penalty = 1.5F, .seed = 8},
        SampleSettings{.repetition_penalty = 2}}) {
    const auto words = std::bit_cast<std::array<std::uint32_t, 8>>(settings);
    record_sample(test.batch(), test.output({1}, DType::i32), seen,
                  test.changed(test.input({8}, words)), logits);
  }
}

void test_logprobs(SelfTest& test) {
  const std::vector<std::int32_t> token{17};
  record_logprobs(test.batch(), {test.output({1}), test.output({5}, DType::i32), test.output({5})},
                  test.input({200}, 6), test.input({1}, token));
}

}  // namespace

void record_sample(Batch& batch, const Tensor& token, const Tensor& seen, const Tensor& settings,
                   const Tensor& logits) {
  constexpr std::string_view op = "sample";
  const std::int64_t vocabulary = vocabulary_of(op, logits);
  require_tensor(op, "token", token, {1}, DType::i32);
  require_tensor(op, "seen", seen, {vocabulary}, DType::u8);
  require_tensor(op, "settings", settings, {8}, DType::u32);
  const bool cpu =
      takes_cpu_kernel(batch.context(), {"sample", "sample_cpu.cl", "sample"}, test_sample);
  const SampleSpec spec(batch.context(), cpu, vocabulary);
  const Tensor weights = batch.temporary({spec.weights}, DType::f32, "sample weights");
  const Cost greedy{static_cast<double>(vocabulary), 4.0 * static_cast<double>(vocabulary)};
  batch.launch({batch.context().kernel(spec.file, "sample", spec.defines), spec.grid, greedy,
                "sample/token"},
               token, seen, settings, weights, logits, i32(vocabulary));
}

void record_logprobs(Batch& batch, const LogprobOutputs& outputs, const Tensor& logits,
                     const Tensor& token) {
  constexpr std::string_view op = "logprobs";
  const std::int64_t vocabulary = vocabulary_of(op, logits);
  require_tensor(op, "logprob", outputs.logprob, {1});
  require_tensor(op, "token", token, {1}, DType::i32);
  const bool any = !outputs.top_ids.empty() || !outputs.top_logprobs.empty();
  std::int64_t top = 0;
  if (any) {
    top = outputs.top_ids.empty() ? 0 : outputs.top_ids.elements();
    require(top >= 1 && top <= vocabulary, "{}: top_ids must be i32 [K] with 1 to {}, got {}", op,
            vocabulary, outputs.top_ids.empty() ? "nothing" : outputs.top_ids.text());
    require_tensor(op, "top_ids", outputs.top_ids, {top}, DType::i32);
    require_tensor(op, "top_logprobs", outputs.top_logprobs, {top});
  }
  const bool cpu = takes_cpu_kernel(batch.context(), {"sample", "sample_cpu.cl", "sample_logprobs"},
                                    test_logprobs);
  const SampleSpec spec(batch.context(), cpu, vocabulary);
  const double passes = 2.0 + static_cast<double>(top);
  const auto elements = static_cast<double>(vocabulary);
  // Without a list the kernel still needs buffers; it does not write to them.
  batch.launch({batch.context().kernel(spec.file, "sample_logprobs", spec.defines),
                spec.grid,
                {passes * elements, 4 * passes * elements},
                "sample/logprobs"},
               outputs.logprob, any ? outputs.top_ids : outputs.logprob,
               any ? outputs.top_logprobs : outputs.logprob, logits, token, i32(vocabulary),
               i32(top));
}

}  // namespace clora
