// sample_WAY/fused/f32/NxV, or V for one row: samples one token of a vocabulary for each of N rows;
// logprobs: their log-probabilities and the 5 most likely tokens.
#include "clora/ops/sample.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/sample_reference.hpp"

namespace clora::bench {
namespace {

std::vector<float> random_logits(const Shape& shape) {
  auto values = random_values(static_cast<std::size_t>(shape.elements()), 1);
  for (float& x : values) x *= 10;
  return values;
}

// Row n draws with its own seed, in the state of slot n.
std::vector<SampleSettings> settings_of_rows(SampleSettings settings, std::int64_t rows) {
  std::vector<SampleSettings> all;
  for (settings.slot = 0; settings.slot < rows; ++settings.slot) {
    settings.seed = static_cast<std::uint32_t>(settings.slot);
    all.push_back(settings);
  }
  return all;
}

// Fails if a token is not the reference's, unless rounding may decide.
double error_of(std::span<const std::int32_t> tokens, std::span<const float> logits,
                std::span<const SampleSettings> settings) {
  const std::size_t size = logits.size() / tokens.size();
  const reference::SampleRowState unseen{.counts = std::vector<std::uint32_t>(size)};
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const auto want = reference::sample(logits.subspan(n * size, size), settings[n], unseen);
    if (want.margin >= 2e-5 && tokens[n] != want.token) return 1;
  }
  return 0;
}

void sample(OpBench& bench, const Shape& shape, const SampleSettings& given) {
  const auto values = random_logits(shape);
  const auto settings = settings_of_rows(given, shape[0]);
  const auto elements = static_cast<double>(shape.elements());
  Context& context = bench.context();
  const std::vector<std::uint32_t> unseen(static_cast<std::size_t>(shape.elements()));
  bench.cost = {elements, 4 * elements};
  bench.record([&](BufferSet& set) {
    const Tensor tokens = set.input(
        {shape[0]}, std::vector<std::int32_t>(static_cast<std::size_t>(shape[0]), kNoToken));
    const Tensor device_settings =
        set.keep(context.allocate({shape[0], kSampleSettingWords}, DType::u32, MemoryTag::scratch));
    context.write(device_settings, std::as_bytes(std::span(settings)));
    const bool penalises = given.repetition_penalty != 1;
    SampleState state;
    if (penalises) {
      state.counts =
          set.keep(context.upload<std::uint32_t>(shape, DType::u32, unseen, MemoryTag::scratch));
    }
    record_sample(set.batch(), tokens, device_settings, set.input(shape, values), state);
    set.expect_error(
        [&, tokens] { return error_of(context.read<std::int32_t>(tokens), values, settings); });
  });
}

void logprobs(OpBench& bench, const Shape& shape) {
  const auto values = random_logits(shape);
  const auto elements = static_cast<double>(shape.elements());
  bench.cost = {elements, 4 * elements};
  bench.record([&](BufferSet& set) {
    const LogprobOutputs out{
        set.output({shape[0]}),
        set.keep(bench.context().allocate({shape[0], 5}, DType::i32, MemoryTag::scratch)),
        set.output({shape[0], 5})};
    record_logprobs(
        set.batch(), out, set.input(shape, values),
        set.input({shape[0]}, std::vector<std::int32_t>(static_cast<std::size_t>(shape[0]), 7)));
    set.expect(out.logprob, [&] {
      std::vector<double> want;
      const auto size = static_cast<std::size_t>(shape[1]);
      for (std::size_t at = 0; at < values.size(); at += size) {
        double sum = 0;
        for (std::size_t v = 0; v < size; ++v) sum += std::exp(double{values[at + v]} - 10);
        want.push_back(double{values[at + 7]} - 10 - std::log(sum));
      }
      return want;
    });
  });
}

const bool kAdded = add_family([] {
  for (const Shape& shape :
       {Shape{1, 32000}, Shape{1, 49152}, Shape{8, 49152}, Shape{64, 152064}}) {
    const Shape named = shape[0] == 1 ? Shape{shape[1]} : shape;
    const auto add_way = [&](const char* way, const SampleSettings& settings) {
      add({.op = std::string("sample_") + way, .shape = named}, sample, shape, settings);
    };
    add_way("greedy", {});
    add_way("penalty", {.repetition_penalty = 1.1F});
    add_way("temperature", {.temperature = 1});
    add_way("top_k_50", {.temperature = 1, .top_k = 50});
    add_way("top_p_0.9", {.temperature = 1, .top_p = 0.9F});
    add_way("typical_0.9", {.temperature = 1, .typical_p = 0.9F});
    add({.op = "logprobs", .shape = named}, logprobs, shape);
  }
});

}  // namespace
}  // namespace clora::bench
