// sample_WAY/fused/f32/V: samples one token of a vocabulary; logprobs: its log-probability and the
// 5 most likely tokens.
#include "clora/ops/sample.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/sample_reference.hpp"

namespace clora::bench {
namespace {

std::vector<float> random_logits(std::int64_t vocabulary) {
  auto values = random_values(static_cast<std::size_t>(vocabulary), 1);
  for (float& x : values) x *= 10;
  return values;
}

void sample(OpBench& bench, std::int64_t vocabulary, const SampleSettings& settings) {
  const auto values = random_logits(vocabulary);
  const std::vector<std::uint8_t> unseen(static_cast<std::size_t>(vocabulary));
  const auto elements = static_cast<double>(vocabulary);
  Context& context = bench.context();
  bench.cost = {elements, 4 * elements};
  bench.record([&](BufferSet& set) {
    const Tensor token = set.input({1}, std::vector<std::int32_t>{-1});
    const Tensor seen =
        set.keep(context.upload<std::uint8_t>({vocabulary}, DType::u8, unseen, MemoryTag::scratch));
    const Tensor device_settings = set.keep(context.allocate({8}, DType::u32, MemoryTag::scratch));
    context.write(device_settings, std::as_bytes(std::span(&settings, 1)));
    record_sample(set.batch(), token, seen, device_settings, set.input({vocabulary}, values));
    set.expect_error([&, token] {
      const auto want = reference::sample(values, unseen, settings);
      const bool near_tie = want.margin < 1e-5;
      return near_tie || context.read<std::int32_t>(token)[0] == want.token ? 0.0 : 1.0;
    });
  });
}

void logprobs(OpBench& bench, std::int64_t vocabulary) {
  const auto values = random_logits(vocabulary);
  const auto elements = static_cast<double>(vocabulary);
  bench.cost = {elements, 4 * elements};
  bench.record([&](BufferSet& set) {
    const LogprobOutputs out{
        set.output({1}), set.keep(bench.context().allocate({5}, DType::i32, MemoryTag::scratch)),
        set.output({5})};
    record_logprobs(set.batch(), out, set.input({vocabulary}, values),
                    set.input({1}, std::vector<std::int32_t>{7}));
    set.expect(out.logprob, [&] {
      double sum = 0;
      for (const float x : values) sum += std::exp(double{x} - 10);
      return std::vector{double{values[7]} - 10 - std::log(sum)};
    });
  });
}

const bool kAdded = add_family([] {
  for (const std::int64_t vocabulary : {32000, 49152}) {
    const auto add_way = [&](const char* way, const SampleSettings& settings) {
      add({.op = std::string("sample_") + way, .shape = {vocabulary}}, sample, vocabulary,
          settings);
    };
    add_way("greedy", {});
    add_way("penalty", {.repetition_penalty = 1.1F});
    add_way("temperature", {.temperature = 1});
    add_way("top_k_50", {.temperature = 1, .top_k = 50});
    add_way("top_p_0.9", {.temperature = 1, .top_p = 0.9F});
    add({.op = "logprobs", .shape = {vocabulary}}, logprobs, vocabulary);
  }
});

}  // namespace
}  // namespace clora::bench
