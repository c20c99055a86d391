// decode_layers/FORM/TYPE/LAYERSxDxPOSITION/bf16: one token through the blocks of SmolLM2-135M at
// position POSITION of the cache, in one launch (fused) or as separate ops (unfused).
#include "clora/ops/decode/decode_layers.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/support/random_layers.hpp"

namespace clora::bench {
namespace {

constexpr test::LayerShapes kSmolLm2{30, 576, 1536, 9, 3, 64, 1024};

void decode_layers(OpBench& bench, DType type, std::int32_t position, bool fused) {
  Context& context = bench.context();
  // Bit-identical on CPUs; GPUs sum in another order.
  bench.tolerance = context.capabilities().cpu ? 0 : 1e-4;
  bench.record([&](BufferSet& set) {
    const Layout layout = preferred_form(context, {kSmolLm2.D, kSmolLm2.D}, type).layout;
    const test::RandomLayers layers(context, kSmolLm2, type, {position, 0}, layout);
    bench.cost = decode_layers_cost(layers.decode);
    for (const DecodeLayer& l : layers.decode.layers) {
      for (const Tensor& w : {l.q, l.k, l.v, l.o, l.gate, l.up, l.down}) (void)set.keep(w);
    }
    const Operand start({1, kSmolLm2.D}, 1);
    const Tensor x = set.output(start.shape);
    set.batch().copy(x, set.input(start));
    const std::vector<std::int32_t> zeros(3);
    if (fused && decodes_in_one_launch(context, layers.decode)) {
      record_decode_layers(set.batch(), x, layers.decode, set.input({3}, zeros));
    } else {
      record_decode_layers_unfused(set.batch(), x, layers.decode);
    }
    set.expect(x, [=, &context] {
      Batch unfused(context);
      const Tensor y =
          context.upload<float>(start.shape, DType::f32, start.floats, MemoryTag::scratch);
      record_decode_layers_unfused(unfused, y, layers.decode);
      unfused.submit().wait();
      return to_double(context.read<float>(y));
    });
  });
}

const bool kAdded = add_family([] {
  if (!has(Arithmetic::bf16)) return;
  for (const DType type : {DType::q4_1, DType::q8_0, DType::bf16}) {
    for (const std::int32_t position : {64, 512}) {
      for (const bool fused : {true, false}) {
        const Name name{.op = "decode_layers",
                        .form = fused ? "fused" : "unfused",
                        .type = std::string(name_of(type)),
                        .shape = {kSmolLm2.layers, kSmolLm2.D, position},
                        .words = {"bf16"}};
        add_op(name, Arithmetic::bf16,
               [=](OpBench& bench) { decode_layers(bench, type, position, fused); });
      }
    }
  }
});

}  // namespace
}  // namespace clora::bench
