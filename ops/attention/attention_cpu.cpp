#include "ops/attention/attention_cpu.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ops/attention/attention_self_test.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTestWidth = 20;
constexpr std::int64_t kBf16TestWidth = 32;  // also a block of q8_0

// Three blocks of rows over the keys of a call of `spec`.
void test_blocks(SelfTest& test, std::int64_t width, const AttentionSpec& spec) {
  constexpr std::int64_t kRows = 2 * AttentionSpec::kQueries + 5;
  test_attention(test, {.rows = kRows,
                        .keys = kRows,
                        .width = width,
                        .key_type = spec.key_type,
                        .scores = self_test_scores(spec)});
}

// Two chunks of keys.
void test_chunks(SelfTest& test, std::int64_t width, const AttentionSpec& spec) {
  test_attention_backward(test, AttentionSpec::kMinChunk + 9, width, DType::f32,
                          self_test_scores(spec));
}

// Whether a kernel for a call of `spec` has passed; with a soft cap, a bias, or keys of another
// type than f32, it is another program.
template <class Test>
bool passed(Context& context, const AttentionSpec& spec, FastKernel kernel, Test test) {
  const std::string name =
      fmt::format("{}{}{}", kernel.name, program_suffix(spec), key_suffix(spec));
  kernel.name = name;
  return passed_self_test(context, kernel, [&](SelfTest& self_test) { test(self_test, spec); });
}

const char* scratch_refusal(const AttentionSpec& spec,
                            std::int64_t (AttentionSpec::*scratch)() const) {
  const auto floats = static_cast<std::size_t>((spec.*scratch)());
  const bool fits = floats * sizeof(float) <= spec.context.device().local_memory_bytes;
  return fits ? nullptr : "its scratch exceeds the local memory";
}

const char* bf16_refusal(const AttentionSpec& spec,
                         std::int64_t (AttentionSpec::*scratch)() const) {
  if (spec.decodes()) return "it is for many rows";
  if (spec.has_bias) return "it has no bias of scores";
  if (!attention_rounds_to_bf16(spec.context.capabilities(), spec.T, spec.E)) {
    return "it needs a head dim that is a multiple of 32";
  }
  return scratch_refusal(spec.for_cpus(true), scratch);
}

// dq is the sum of the parts of all chunks of keys.
AttentionGradients record_backward(Batch& batch, const AttentionBackward& backward, bool bf16) {
  const auto& [given, out, dy, y, log_sum_exp, in, cost] = backward;
  const AttentionSpec spec = given.for_cpus(bf16);
  const std::int64_t T = spec.T, H = spec.H, G = spec.G, E = spec.E;
  const std::string_view file = bf16 ? kAttentionBackwardBf16Cpu : kAttentionBackwardCpu;
  const std::int64_t chunk = spec.chunk();
  const std::int64_t chunks = divide_up(T, chunk);
  const Tensor parts =
      chunks == 1 ? out.dq : batch.temporary({chunks - 1, T, H, E}, DType::f32, "dq parts");
  Launch launch{spec.kernel(file, bf16 ? "attention_backward_bf16_cpu" : "attention_backward_cpu"),
                single_item_groups(static_cast<std::size_t>(G * chunks)), cost,
                "attention/backward"};
  std::vector<Argument> arguments{out.dq,
                                  parts,
                                  out.dk,
                                  out.dv,
                                  dy,
                                  y,
                                  log_sum_exp,
                                  in.q,
                                  in.k,
                                  in.v,
                                  in.first,
                                  in.last,
                                  spec.problem(in.scale),
                                  narrow(chunk)};
  if (bf16) arguments.emplace_back(narrow(spec.backward_heads()));
  arguments.emplace_back(spec.local(spec.backward_scratch()));
  append_bias(arguments, in);
  batch.record(std::move(launch), std::move(arguments));
  if (chunks == 1) return out;
  const std::int64_t rows = divide_up(T, spec.wanted_groups());
  batch.launch({spec.kernel(file, "attention_add_parts_cpu"),
                single_item_groups(static_cast<std::size_t>(divide_up(T, rows))),
                {},
                "attention/add parts"},
               out.dq, parts, in.first, in.last, narrow(T), narrow(H * E), narrow(chunk),
               narrow(rows));
  return out;
}

}  // namespace

const char* attention_decode_cpu_refusal(const Context&, const AttentionForward& forward) {
  return scratch_refusal(forward.spec, &AttentionSpec::decode_scratch);
}

bool attention_decode_cpu_passed(Context& context, const AttentionForward& forward) {
  return passed(context, forward.spec, {kAttentionDecodeCpu, "attention_decode_cpu"},
                [](SelfTest& test, const AttentionSpec& spec) {
                  test_attention(
                      test, {.rows = 3,
                             .keys = spec.page > 0 ? 96 : 90,
                             .width = spec.key_type == DType::q8_0 ? kBf16TestWidth : kTestWidth,
                             .key_type = spec.key_type,
                             .scores = self_test_scores(spec),
                             .in_pages = spec.page > 0});
                });
}

void record_attention_decode_cpu(Batch& batch, const AttentionForward& forward) {
  const AttentionSpec spec = forward.spec.for_cpus(false);
  const AttentionInputs& in = forward.in;
  const std::int64_t T = spec.T, H = spec.H, G = spec.G, E = spec.E;
  const std::int64_t splits = spec.splits();
  const Tensor parts = batch.temporary({T, H, splits, E + 2}, DType::f32, "attention parts");
  std::vector<Argument> arguments{parts, in.q, in.k, in.v, in.first, in.last};
  append_page_tables(arguments, in);
  for (const std::int64_t size : {H, G, E}) arguments.emplace_back(narrow(size));
  arguments.emplace_back(in.scale);
  arguments.emplace_back(narrow(splits));
  arguments.emplace_back(spec.local(spec.decode_scratch()));
  batch.record({spec.kernel(kAttentionDecodeCpu, "attention_decode_cpu"),
                single_item_groups(static_cast<std::size_t>(T * G * splits)), spec.cost(),
                "attention/decode"},
               std::move(arguments));
  batch.launch({spec.kernel(kAttentionDecodeCpu, "attention_join_cpu"),
                single_item_groups(static_cast<std::size_t>(T)),
                {},
                "attention/join"},
               forward.y, forward.logs_or_y(), parts, narrow(H), narrow(E), narrow(splits),
               std::int32_t{forward.keeps_log_sum_exp()});
}

bool attention_cpu_passed(Context& context, const AttentionForward& forward) {
  return passed(
      context, forward.spec, {kAttentionCpu, "attention_forward_cpu"},
      [](SelfTest& test, const AttentionSpec& spec) { test_blocks(test, kTestWidth, spec); });
}

void record_attention_cpu(Batch& batch, const AttentionForward& forward) {
  const AttentionSpec spec = forward.spec.for_cpus(false);
  const std::int64_t blocks = divide_up(spec.T, AttentionSpec::kQueries);
  std::vector<Argument> arguments = forward.arguments();
  arguments.emplace_back(spec.local(spec.forward_scratch()));
  append_bias(arguments, forward.in);
  batch.record({spec.kernel(kAttentionCpu, "attention_forward_cpu"),
                single_item_groups(static_cast<std::size_t>(spec.H * blocks)), spec.cost(),
                "attention/forward"},
               std::move(arguments));
}

const char* attention_bf16_cpu_refusal(const Context&, const AttentionForward& forward) {
  return bf16_refusal(forward.spec, &AttentionSpec::forward_scratch);
}

bool attention_bf16_cpu_passed(Context& context, const AttentionForward& forward) {
  return passed(
      context, forward.spec, {kAttentionBf16Cpu, "attention_forward_bf16_cpu", kBf16Tolerance},
      [](SelfTest& test, const AttentionSpec& spec) { test_blocks(test, kBf16TestWidth, spec); });
}

void record_attention_bf16_cpu(Batch& batch, const AttentionForward& forward) {
  const AttentionSpec spec = forward.spec.for_cpus(true);
  const std::int64_t heads = spec.forward_heads(), group_blocks = spec.forward_blocks();
  const std::int64_t blocks = divide_up(spec.T, AttentionSpec::kQueries);
  const std::int64_t groups =
      divide_up(blocks, group_blocks) * spec.G * divide_up(spec.H / spec.G, heads);
  std::vector<Argument> arguments = forward.arguments();
  arguments.emplace_back(narrow(heads));
  arguments.emplace_back(narrow(group_blocks));
  arguments.emplace_back(spec.local(spec.forward_scratch()));
  batch.record(
      {spec.kernel(kAttentionBf16Cpu, "attention_forward_bf16_cpu"),
       single_item_groups(static_cast<std::size_t>(groups)), spec.cost(), "attention/forward"},
      std::move(arguments));
}

bool attention_backward_cpu_passed(Context& context, const AttentionBackward& backward) {
  return passed(
      context, backward.spec, {kAttentionBackwardCpu, "attention_backward_cpu"},
      [](SelfTest& test, const AttentionSpec& spec) { test_chunks(test, kTestWidth, spec); });
}

AttentionGradients record_attention_backward_cpu(Batch& batch, const AttentionBackward& backward) {
  return record_backward(batch, backward, false);
}

const char* attention_backward_bf16_cpu_refusal(const Context&, const AttentionBackward& backward) {
  return bf16_refusal(backward.spec, &AttentionSpec::backward_scratch);
}

bool attention_backward_bf16_cpu_passed(Context& context, const AttentionBackward& backward) {
  return passed(
      context, backward.spec,
      {kAttentionBackwardBf16Cpu, "attention_backward_bf16_cpu", kBf16Tolerance},
      [](SelfTest& test, const AttentionSpec& spec) { test_chunks(test, kBf16TestWidth, spec); });
}

AttentionGradients record_attention_backward_bf16_cpu(Batch& batch,
                                                      const AttentionBackward& backward) {
  return record_backward(batch, backward, true);
}

}  // namespace clora
