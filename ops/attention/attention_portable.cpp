#include "ops/attention/attention_portable.hpp"

#include <utility>
#include <vector>

namespace clora {

void record_attention_decode(Batch& batch, const AttentionForward& forward) {
  const auto& [spec, y, log_sum_exp, in] = forward;
  const std::int64_t T = spec.T, H = spec.H, E = spec.E, splits = spec.portable_splits();
  Defines defines = spec.defines(in.q.type(), y.type());
  const std::int64_t heads = spec.decode_heads();
  defines.set("HEADS", heads).set("HEAD_DIM", E).set("SPLITS", splits);
  defines.set("VEC_SIZE", reads_vec4s(spec, in) ? 4 : 1);
  Context& context = spec.context;
  const auto kernel = [&](std::string_view function) {
    return context.kernel(kAttentionDecode, function, defines);
  };
  const Tensor parts = batch.temporary({T, H, splits, E + 2}, DType::f32, "attention parts");
  std::vector<Argument> arguments{parts, in.q, in.k, in.v, in.first, in.last};
  append_page_tables(arguments, in);
  arguments.emplace_back(spec.problem(in.scale));
  batch.record({kernel("attention_decode"), spec.groups(T * splits, H / heads), spec.cost(),
                "attention/decode"},
               std::move(arguments));
  const std::int64_t elements = T * H * E;
  batch.launch({kernel("attention_join"),
                spec.groups(divide_up(elements, spec.work_group()), 1),
                {},
                "attention/join"},
               y, forward.logs_or_y(), parts, elements, std::int32_t{forward.keeps_log_sum_exp()});
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
