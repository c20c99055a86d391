#include "clora/ops/sample.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kSample = "sample";

// The tensors that a SampleState has; as in cl/sample_settings.clh.
constexpr std::uint32_t kHasCounts = 1, kHasBiases = 2, kHasMask = 4, kHasLatest = 8;

// N and V.
struct LogitsShape {
  std::int64_t rows, vocabulary;

  LogitsShape(std::string_view op, const Tensor& logits) {
    require(!logits.empty() && logits.shape().rank() == 2 && logits.elements() > 0,
            "{}: logits must be f32 [N, V] with N and V at least 1, got {}", op,
            logits.empty() ? "nothing" : logits.text());
    require_tensor(op, "logits", logits, logits.shape());
    rows = logits.shape()[0];
    vocabulary = logits.shape()[1];
  }
  double elements() const { return static_cast<double>(rows) * static_cast<double>(vocabulary); }
};

// A GPU needs many readers of a row, but each has the state of a search in its registers; so each
// reads several logits at once. On a CPU, items cost more than they read.
std::size_t row_group(const Device& device) {
  return reduction_group(device, device.kind == DeviceKind::gpu ? 512 : 64);
}

// The tensors of a SampleState as arguments of the kernels. A kernel that gets `placeholder`
// neither reads nor writes it.
struct StateArguments {
  std::uint32_t has = 0;
  Tensor counts, bias_ids, bias_values, mask, latest;
  std::int64_t slots = std::numeric_limits<std::int32_t>::max(), bias_columns = 0;

  StateArguments(const SampleState& state, LogitsShape n, const Tensor& placeholder)
      : counts(or_placeholder(state.counts, placeholder, kHasCounts)),
        bias_ids(or_placeholder(state.bias_ids, placeholder, kHasBiases)),
        bias_values(or_placeholder(state.bias_values, placeholder, kHasBiases)),
        mask(or_placeholder(state.mask, placeholder, kHasMask)),
        latest(or_placeholder(state.latest, placeholder, kHasLatest)) {
    check_biases(state);
    for (const Tensor* t : {&state.counts, &state.bias_ids, &state.latest}) {
      if (!t->empty()) slots = t->shape()[0];
    }
    if ((has & kHasCounts) != 0) {
      require_tensor(kSample, "counts", counts, {slots, n.vocabulary}, DType::u32);
    }
    if ((has & kHasBiases) != 0) {
      require_tensor(kSample, "bias_ids", bias_ids, {slots, bias_columns}, DType::i32);
      require_tensor(kSample, "bias_values", bias_values, {slots, bias_columns});
    }
    if ((has & kHasMask) != 0) {
      require_tensor(kSample, "mask", mask, {n.rows, divide_up(n.vocabulary, 32)}, DType::u32);
    }
    if ((has & kHasLatest) != 0) require_tensor(kSample, "latest", latest, {slots}, DType::i32);
  }
  bool may_change_logits() const { return (has & (kHasCounts | kHasBiases | kHasMask)) != 0; }

 private:
  Tensor or_placeholder(const Tensor& given, const Tensor& placeholder, std::uint32_t bit) {
    if (given.empty()) return placeholder;
    has |= bit;
    return given;
  }
  void check_biases(const SampleState& state) {
    if (state.bias_ids.empty() && state.bias_values.empty()) return;
    require(!state.bias_ids.empty() && state.bias_ids.shape().rank() == 2,
            "{}: bias_ids must be i32 [S, B], got {}", kSample,
            state.bias_ids.empty() ? "nothing" : state.bias_ids.text());
    bias_columns = state.bias_ids.shape()[1];
  }
};

struct SampleTensors {
  const Tensor &tokens, &settings, &logits;
  LogitsShape n;
  StateArguments state;
  Tensor changed, list;  // scratch
};

Cost greedy_cost(LogitsShape n) { return {n.elements(), 4 * n.elements()}; }

void record_cpu_sample(Batch& batch, const SampleTensors& t) {
  batch.launch(
      {batch.context().kernel("sample_cpu.cl", "sample"),
       single_item_groups(static_cast<std::size_t>(t.n.rows)), greedy_cost(t.n), "sample/token"},
      t.tokens, t.state.latest, t.state.counts, t.list, t.changed, t.settings, t.logits,
      t.state.bias_ids, t.state.bias_values, t.state.mask, i32(t.n.vocabulary), i32(t.state.has),
      i32(t.state.slots), i32(t.state.bias_columns));
}

// Groups that search a row for its largest logit: as many as fill the device, but each has a few
// thousand logits to read.
std::int64_t parts_of(LogitsShape n, const Device& device) {
  constexpr std::int64_t kPartSize = 4096;
  const std::int64_t wanted = divide_up(static_cast<std::int64_t>(device.compute_units), n.rows);
  return std::clamp<std::int64_t>(wanted, 1, divide_up(n.vocabulary, kPartSize));
}

void record_portable_sample(Batch& batch, const SampleTensors& t) {
  Context& context = batch.context();
  const bool gpu = context.device().kind == DeviceKind::gpu;
  const std::size_t group = row_group(context.device());
  Defines defines;
  defines.set("GROUP", group).set("AT_ONCE", gpu ? 8 : 1);
  const std::int64_t parts = parts_of(t.n, context.device());
  const std::int64_t part_size = divide_up(t.n.vocabulary, parts);
  const Tensor peaks = batch.temporary({t.n.rows, parts, 2}, DType::f32, "sample peaks");
  const auto rows = static_cast<std::size_t>(t.n.rows);
  const Grid grid{{group * static_cast<std::size_t>(parts), rows, 1}, {group, 1, 1}};
  batch.launch({context.kernel("sample.cl", "sample_peaks", defines), grid, greedy_cost(t.n),
                "sample/peaks"},
               peaks, t.changed, t.settings, t.logits, t.state.counts, t.state.bias_ids,
               t.state.bias_values, t.state.mask, i32(t.n.vocabulary), i32(part_size),
               i32(t.state.has), i32(t.state.slots), i32(t.state.bias_columns));
  batch.launch(
      {context.kernel("sample.cl", "sample", defines), groups_of(group, rows), {}, "sample/token"},
      t.tokens, t.state.latest, t.state.counts, t.list, peaks, t.changed, t.settings, t.logits,
      i32(t.n.vocabulary), i32(parts), i32(t.state.has), i32(t.state.slots),
      i32(t.state.bias_columns));
}

// Rows with different filters, penalties, biases and masks, and one without a draw.
void test_sample(SelfTest& test) {
  constexpr std::int64_t kVocabulary = 200;
  const SampleSettings rows[] = {
      {.temperature = 0.8F, .top_k = 30, .seed = 7},
      {.temperature = 1, .top_p = 0.9F, .repetition_penalty = 1.5F, .seed = 8, .slot = 1},
      {.temperature = 2, .min_p = 0.1F, .typical_p = 0.8F, .seed = 9, .slot = 2, .uses_mask = 1},
      {.presence_penalty = 1, .slot = 3, .bias_count = 2}};
  std::vector<std::uint32_t> words;
  for (const SampleSettings& row : rows) {
    const auto own = std::bit_cast<std::array<std::uint32_t, 16>>(row);
    words.insert(words.end(), own.begin(), own.end());
  }
  const std::vector<std::int32_t> ids{1, 2, 1, 2, 1, 2, 1, 2};
  const std::vector<std::uint32_t> counts(4 * kVocabulary), mask(4 * 7, 0x55555555U);
  record_sample(test.batch(), test.output({4}, DType::i32), test.input({4, 16}, words),
                test.input({4, kVocabulary}, 6),
                {.counts = test.changed(test.input({4, kVocabulary}, counts)),
                 .bias_ids = test.input({4, 2}, ids),
                 .bias_values = test.input({4, 2}, 9),
                 .mask = test.input({4, 7}, mask),
                 .latest = test.output({4}, DType::i32)});
}

void test_logprobs(SelfTest& test) {
  const std::vector<std::int32_t> tokens{17, 3};
  record_logprobs(test.batch(),
                  {test.output({2}), test.output({2, 5}, DType::i32), test.output({2, 5})},
                  test.input({2, 200}, 6), test.input({2}, tokens));
}

// K of the outputs; checks them.
std::int64_t top_count(const LogprobOutputs& outputs, LogitsShape n) {
  constexpr std::string_view op = "logprobs";
  const Tensor& ids = outputs.top_ids;
  if (ids.empty() && outputs.top_logprobs.empty()) return 0;
  const std::int64_t most = std::min(n.vocabulary, kMaxTopLogprobs);
  const bool is_matrix = !ids.empty() && ids.shape().rank() == 2;
  const std::int64_t top = is_matrix ? ids.shape()[1] : 0;
  require(top >= 1 && top <= most, "{}: top_ids must be i32 [{}, K] with K from 1 to {}, got {}",
          op, n.rows, most, ids.empty() ? "nothing" : ids.text());
  require_tensor(op, "top_ids", ids, {n.rows, top}, DType::i32);
  require_tensor(op, "top_logprobs", outputs.top_logprobs, {n.rows, top});
  return top;
}

}  // namespace

void record_sample(Batch& batch, const Tensor& tokens, const Tensor& settings, const Tensor& logits,
                   const SampleState& state) {
  const LogitsShape n(kSample, logits);
  require_tensor(kSample, "tokens", tokens, {n.rows}, DType::i32);
  require_tensor(kSample, "settings", settings, {n.rows, kSampleSettingWords}, DType::u32);
  const StateArguments arguments(state, n, tokens);
  const bool cpu =
      takes_cpu_kernel(batch.context(), {"sample", "sample_cpu.cl", "sample"}, test_sample);
  const Tensor changed = arguments.may_change_logits()
                             ? batch.temporary(logits.shape(), DType::f32, "changed logits")
                             : tokens;
  const Tensor list = batch.temporary(logits.shape(), DType::i32, "tokens to draw from");
  const SampleTensors all{tokens, settings, logits, n, arguments, changed, list};
  if (cpu) {
    record_cpu_sample(batch, all);
  } else {
    record_portable_sample(batch, all);
  }
}

std::vector<std::uint32_t> token_counts(std::int64_t vocabulary,
                                        std::span<const std::int32_t> prompt,
                                        std::span<const std::int32_t> reply) {
  constexpr std::uint32_t kPromptHasIt = 0x80000000U;
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(vocabulary));
  for (const std::int32_t id : prompt) counts[static_cast<std::size_t>(id)] = kPromptHasIt;
  for (const std::int32_t id : reply) ++counts[static_cast<std::size_t>(id)];
  return counts;
}

void record_pick_ids(Batch& batch, const Tensor& ids_out, const Tensor& ids, const Tensor& source,
                     const Tensor& latest) {
  constexpr std::string_view op = "pick_ids";
  require(!ids.empty() && ids.shape().rank() == 1, "{}: ids must be i32 [T], got {}", op,
          ids.empty() ? "nothing" : ids.text());
  require(!latest.empty() && latest.shape().rank() == 1, "{}: latest must be i32 [S], got {}", op,
          latest.empty() ? "nothing" : latest.text());
  const Shape rows = ids.shape();
  require_tensor(op, "ids", ids, rows, DType::i32);
  require_tensor(op, "ids_out", ids_out, rows, DType::i32);
  require_tensor(op, "source", source, rows, DType::i32);
  require_tensor(op, "latest", latest, latest.shape(), DType::i32);
  constexpr std::size_t kGroup = 64;
  const auto items = static_cast<std::size_t>(rows[0]);
  batch.launch({batch.context().kernel("sample_pick_ids.cl", "sample_pick_ids"),
                groups_of(kGroup, divide_up(items, kGroup)),
                {0, 16.0 * static_cast<double>(items)},
                "sample/pick_ids"},
               ids_out, ids, source, latest, i32(rows[0]));
}

void record_logprobs(Batch& batch, const LogprobOutputs& outputs, const Tensor& logits,
                     const Tensor& tokens) {
  constexpr std::string_view op = "logprobs";
  const LogitsShape n(op, logits);
  require_tensor(op, "logprob", outputs.logprob, {n.rows});
  require_tensor(op, "tokens", tokens, {n.rows}, DType::i32);
  const std::int64_t top = top_count(outputs, n);
  Context& context = batch.context();
  const bool cpu = takes_cpu_kernel(
      context, {"sample", "sample_logprobs_cpu.cl", "sample_logprobs"}, test_logprobs);
  const double passes = top > 0 ? 3 : 2;
  Launch launch{{}, {}, {passes * n.elements(), 4 * passes * n.elements()}, "sample/logprobs"};
  Defines defines;
  defines.set("MAX_TOP", kMaxTopLogprobs);
  // Without a list the kernel still needs buffers; it does not write to them.
  std::vector<Argument> arguments{outputs.logprob, top > 0 ? outputs.top_ids : outputs.logprob,
                                  top > 0 ? outputs.top_logprobs : outputs.logprob};
  const auto rows = static_cast<std::size_t>(n.rows);
  if (cpu) {
    launch.kernel = context.kernel("sample_logprobs_cpu.cl", "sample_logprobs", defines);
    launch.grid = single_item_groups(rows);
  } else {
    const std::size_t group = row_group(context.device());
    defines.set("GROUP", group);
    launch.kernel = context.kernel("sample_logprobs.cl", "sample_logprobs", defines);
    launch.grid = groups_of(group, rows);
    arguments.emplace_back(batch.temporary(logits.shape(), DType::i32, "tokens to list"));
  }
  arguments.insert(arguments.end(), {logits, tokens, i32(n.vocabulary), i32(top)});
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
