#include "clora/ops/experts/load_balance.hpp"

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kBlockRows = 64;
constexpr std::size_t kGroup = 256;
constexpr std::size_t kRowItems = 64;

std::size_t group_for(const Device& device, std::size_t wanted) {
  return device.kind == DeviceKind::cpu ? 1 : reduction_group(device, wanted);
}

Launch launch_of(Context& context, std::string_view function, std::size_t group,
                 std::size_t groups) {
  Defines defines;
  defines.set("GROUP", group).set("ROWS", static_cast<std::uint32_t>(kBlockRows));
  return {context.kernel("load_balance.cl", function, defines),
          groups_of(group, groups),
          {},
          "load_balance/" + std::string(function)};
}

// An exp counts as 8 flops.
Cost cost_of(const Tensor& logits, double passes) {
  const auto elements = static_cast<double>(logits.elements());
  return {10 * passes * elements, static_cast<double>(logits.bytes())};
}

void require_logits(const Tensor& logits, const LoadBalance& load) {
  require(!logits.empty() && logits.shape().rank() == 2, "load_balance: logits must be [T, X]");
  const std::int64_t rows = logits.shape()[0];
  require_tensor("load_balance", "logits", logits, {rows, load.experts()});
  require_tensor("load_balance", "sums", load.sums,
                 {load.layers(), divide_up(rows, kBlockRows), 2, load.experts()});
}

}  // namespace

LoadBalance make_load_balance(std::int64_t layers, const RoutingSize& size, const Tensor& scalars,
                              const AllocateTensor& allocate) {
  require(layers >= 1 && size.rows >= 1 && size.experts >= 1,
          "load_balance: layers, rows and experts must be positive, got {}, {} and {}", layers,
          size.rows, size.experts);
  require_tensor("load_balance", "scalars", scalars, {2});
  return {.sums = allocate({layers, divide_up(size.rows, kBlockRows), 2, size.experts}, DType::f32,
                           "load of experts"),
          .dp = allocate({size.experts}, DType::f32, "d load of experts"),
          .scalars = scalars};
}

void record_load_of_layer(Batch& batch, const LoadBalance& load, std::int64_t layer,
                          const Tensor& logits, const Tensor& ids) {
  require_logits(logits, load);
  require(layer >= 0 && layer < load.layers(), "load_balance: the layer must be below {}, got {}",
          load.layers(), layer);
  const std::int64_t rows = logits.shape()[0];
  require(!ids.empty() && ids.shape().rank() == 2, "load_balance: ids must be [T, K]");
  const std::int64_t used = ids.shape()[1];
  require_tensor("load_balance", "ids", ids, {rows, used}, DType::i32);
  Context& context = batch.context();
  Launch launch = launch_of(context, "load_balance_sums", group_for(context.device(), kGroup),
                            static_cast<std::size_t>(divide_up(rows, kBlockRows)));
  launch.cost = cost_of(logits, 2);
  batch.launch(std::move(launch), load.sums, logits, ids, load.scalars, u32(rows),
               u32(load.experts()), u32(used), u32(layer));
}

void record_load_balance_loss(Batch& batch, const Tensor& loss, const LoadBalance& load,
                              std::int64_t rows) {
  require_tensor("load_balance", "loss", loss, {1});
  Context& context = batch.context();
  Launch launch = launch_of(context, "load_balance_loss", group_for(context.device(), kGroup), 1);
  launch.cost = {static_cast<double>(load.sums.elements()), static_cast<double>(load.sums.bytes())};
  batch.launch(std::move(launch), loss, load.dp, load.sums, load.scalars, u32(rows),
               u32(load.experts()), u32(load.layers()), u32(load.sums.shape()[1]));
}

void record_load_balance_backward(Batch& batch, const Tensor& dlogits, const Tensor& logits,
                                  const LoadBalance& load) {
  require_logits(logits, load);
  require_tensor("load_balance", "dlogits", dlogits, logits.shape());
  Context& context = batch.context();
  const std::int64_t rows = logits.shape()[0];
  const std::size_t group = group_for(context.device(), kRowItems);
  Launch launch = launch_of(context, "load_balance_backward", group,
                            divide_up(static_cast<std::size_t>(rows), group));
  launch.cost = cost_of(logits, 3);
  batch.launch(std::move(launch), dlogits, logits, load.dp, load.scalars, u32(rows),
               u32(load.experts()));
}

}  // namespace clora
