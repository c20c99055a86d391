#include "ops/attention/attention_portable.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "ops/dispatch/soft_cap_define.hpp"

namespace clora {

namespace {

// Kernels of decoding write parts [T, H, splits, E + 2] first.
struct DecodeParts {
  std::int64_t splits;
  Tensor parts;

  DecodeParts(Batch& batch, const AttentionSpec& spec, std::int64_t count)
      : splits(count),
        parts(batch.temporary({spec.T, spec.H, count, spec.E + 2}, DType::f32, "attention parts")) {
  }
  std::vector<Argument> arguments(const AttentionForward& forward) const {
    const AttentionInputs& in = forward.in;
    std::vector<Argument> arguments{parts, in.q, in.k, in.v, in.first, in.last};
    append_page_tables(arguments, in);
    arguments.emplace_back(forward.spec.problem(in.scale));
    return arguments;
  }
};

Defines decode_defines(const AttentionForward& forward, std::int64_t splits) {
  const AttentionSpec& spec = forward.spec;
  Defines defines = spec.defines(forward.in.q.type(), forward.y.type());
  defines.set("HEADS", spec.decode_heads()).set("HEAD_DIM", spec.E).set("SPLITS", splits);
  return defines.set("VEC_SIZE", reads_vec4s(spec, forward.in) ? 4 : 1);
}

void record_join(Batch& batch, const AttentionForward& forward, const DecodeParts& from) {
  const AttentionSpec& spec = forward.spec;
  const std::int64_t elements = spec.T * spec.H * spec.E;
  batch.launch({spec.context.kernel(kAttentionDecode, "attention_join",
                                    decode_defines(forward, from.splits)),
                spec.groups(divide_up(elements, spec.work_group()), 1),
                {},
                "attention/join"},
               forward.y, forward.logs_or_y(), from.parts, elements,
               std::int32_t{forward.keeps_log_sum_exp()});
}

// cl/attention/attention_decode_staged.cl
struct StagedDecode {
  static constexpr std::int64_t kGroup = 128;
  static constexpr std::int64_t kChunks = 8;
  static constexpr std::int64_t kWordBytes = 16;
  const AttentionSpec& spec;

  std::int64_t local_bytes() const {
    const std::int64_t keys = kGroup * std::max(spec.E / 8 + 1, spec.decode_heads()) * kWordBytes;
    return keys + 4 * spec.decode_heads() * (spec.E + 2 * kGroup + kChunks);
  }
  // As many groups as the device runs at once, about.
  std::int64_t splits() const {
    const std::int64_t groups = spec.T * spec.H / spec.decode_heads();
    const std::int64_t most = std::min<std::int64_t>(divide_up(spec.Tk, kGroup), 32);
    const std::int64_t wanted = std::clamp<std::int64_t>(spec.wanted_groups() / groups, 1, most);
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(wanted)));
  }
};

}  // namespace

void record_attention_decode(Batch& batch, const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  const DecodeParts parts(batch, spec, spec.portable_splits());
  batch.record({spec.context.kernel(kAttentionDecode, "attention_decode",
                                    decode_defines(forward, parts.splits)),
                spec.groups(spec.T * parts.splits, spec.H / spec.decode_heads()), spec.cost(),
                "attention/decode"},
               parts.arguments(forward));
  record_join(batch, forward, parts);
}

const char* attention_decode_staged_refusal(const Context& context,
                                            const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  if (spec.T < 2) return "it is for several rows";
  if (spec.key_type != DType::bf16) return "it reads keys of bf16";
  const bool is_aligned = spec.E % 8 == 0 && spec.E <= 4 * StagedDecode::kGroup &&
                          forward.in.k.offset_bytes() % StagedDecode::kWordBytes == 0 &&
                          forward.in.v.offset_bytes() % StagedDecode::kWordBytes == 0;
  if (!is_aligned) return "it needs a head dim that is a multiple of 8";
  if (context.device().max_work_group_size < StagedDecode::kGroup) {
    return "the device's work-groups are too small";
  }
  const auto bytes = static_cast<std::size_t>(StagedDecode{spec}.local_bytes());
  return bytes <= context.device().local_memory_bytes ? nullptr
                                                      : "a block of keys exceeds the local memory";
}

void record_attention_decode_staged(Batch& batch, const AttentionForward& forward) {
  const AttentionSpec& spec = forward.spec;
  const DecodeParts parts(batch, spec, StagedDecode{spec}.splits());
  Defines defines;
  define_soft_cap(defines, spec.soft_cap);
  if (spec.page > 0) defines.set("PAGE", spec.page);
  defines.set("GROUP", StagedDecode::kGroup).set("HEADS", spec.decode_heads());
  defines.set("HEAD_DIM", spec.E).set("SPLITS", parts.splits);
  defines.set("X_TYPE", name_of(forward.in.q.type()));
  constexpr auto kItems = static_cast<std::size_t>(StagedDecode::kGroup);
  const auto groups = static_cast<std::size_t>(spec.T * parts.splits);
  batch.record({spec.context.kernel(kAttentionDecodeStaged, "attention_decode_staged", defines),
                {{groups * kItems, static_cast<std::size_t>(spec.H / spec.decode_heads()), 1},
                 {kItems, 1, 1}},
                spec.cost(),
                "attention/decode"},
               parts.arguments(forward));
  record_join(batch, forward, parts);
}

void record_attention_portable(Batch& batch, const AttentionForward& forward) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  (void)spec.local(2 * spec.E + spec.work_group());
  const LocalMemory row = spec.local(spec.E);
  std::vector<Argument> arguments = forward.arguments();
  arguments.insert(arguments.end(), 2, row);
  append_bias(arguments, in);
  batch.record({spec.context.kernel(kAttentionPortable, "attention_forward",
                                    spec.defines(in.q.type(), y.type())),
                spec.groups(spec.T, spec.H), spec.cost(), "attention/forward"},
               std::move(arguments));
}

Tensor record_attention_dots(Batch& batch, const AttentionBackward& backward) {
  const AttentionSpec& spec = backward.spec;
  const std::int64_t rows = spec.T * spec.H;
  Tensor dot = batch.temporary({spec.T, spec.H}, DType::f32, "dy . y");
  const Defines defines = spec.defines(backward.in.q.type(), backward.out.dq.type());
  batch.launch({spec.context.kernel(kAttentionBackwardPortable, "attention_dots", defines),
                spec.groups(divide_up(rows, spec.work_group()), 1),
                {},
                "attention/dots"},
               dot, backward.dy, backward.y, narrow(rows), narrow(spec.E));
  return dot;
}

AttentionGradients record_attention_backward_portable(Batch& batch,
                                                      const AttentionBackward& backward) {
  const auto& [spec, out, dy, y, log_sum_exp, in, cost] = backward;
  const Defines defines = spec.defines(in.q.type(), out.dq.type());
  const auto kernel = [&context = spec.context, &defines](std::string_view name) {
    return context.kernel(kAttentionBackwardPortable, name, defines);
  };
  const Tensor dot = record_attention_dots(batch, backward);
  const LocalMemory row = spec.local(spec.E);
  (void)spec.local(4 * spec.E + 2 * spec.work_group());
  std::vector<Argument> of_keys{out.dk, out.dv, dy,   log_sum_exp, dot,
                                in.q,   in.k,   in.v, in.first,    spec.problem(in.scale),
                                row,    row,    row,  row};
  append_bias(of_keys, in);
  batch.record(
      {kernel("attention_backward_keys"), spec.groups(spec.T, spec.G), cost, "attention/backward"},
      std::move(of_keys));
  std::vector<Argument> of_queries{out.dq, dy,   log_sum_exp, dot,     in.q,
                                   in.k,   in.v, in.first,    in.last, spec.problem(in.scale),
                                   row,    row,  row};
  append_bias(of_queries, in);
  batch.record({kernel("attention_backward_queries"),
                spec.groups(spec.T, spec.H),
                {},
                "attention/backward q"},
               std::move(of_queries));
  return out;
}

}  // namespace clora
