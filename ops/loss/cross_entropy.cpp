#include "clora/ops/loss/cross_entropy.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/dispatch/loss_term_defines.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The file, options and grid for `rows` rows.
struct CrossEntropySpec {
  bool cpu;
  std::string_view file;
  Defines defines;
  Grid grid;

  // type: of logits. The kernels for CPUs support only f32. `name` is that of the self-test.
  CrossEntropySpec(Context& context, std::string_view name, const SelfTestRecord& self_test,
                   std::int64_t rows, DType type)
      : cpu(type == DType::f32 &&
            takes_cpu_kernel(context, {"cross_entropy", "cross_entropy_cpu.cl", name}, self_test)),
        file(cpu ? "cross_entropy_cpu.cl" : "cross_entropy.cl") {
    if (cpu) {
      grid = single_item_groups(cpu_groups(context.device(), rows));
    } else {
      // A single row gets a larger group: no other rows fill the device.
      const std::size_t group = reduction_group(context.device(), rows == 1 ? 1024 : 256);
      defines.set("GROUP", group).set("X_TYPE", name_of(type));
      grid = groups_of(group, static_cast<std::size_t>(rows));
    }
  }
};

Launch launch_of(Batch& batch, const CrossEntropySpec& spec, std::string_view function, Cost cost,
                 std::string label) {
  return {batch.context().kernel(spec.file, function, spec.defines), spec.grid, cost,
          std::move(label)};
}

struct TestedForm {
  bool gradient, capped, has_terms;
};

// With a cap that matters for the logits; others than without one, since their results have other
// sums (ops/dispatch/self_test_sums.hpp). These depend on the order of the calls as well.
void record_test(SelfTest& test, TestedForm form) {
  const std::vector<std::int32_t> targets{52, -1, 0, 17, 5};
  CrossEntropyInputs inputs{.logits = {}, .targets = {}, .soft_cap = form.capped ? 4.0F : 0.0F};
  if (form.gradient) inputs.weight = test.input({1});
  inputs.targets = test.input({5}, targets);
  inputs.logits = test.input({5, 53}, (form.capped ? 7.0F : 6.0F) + (form.has_terms ? 2.0F : 0.0F));
  const Tensor dlogits = form.gradient ? test.output({5, 53}) : Tensor();
  if (form.has_terms) inputs.terms = {0.1F, 0.01F, test.output({5})};
  record_cross_entropy(test.batch(), test.output({5}), dlogits, inputs);
}

void test_dot(SelfTest& test) {
  const Tensor sum = test.changed(test.input({1})), x = test.input({100}), y = test.input({100});
  record_dot(test.batch(), sum, x, y);
}

void test_sum(SelfTest& test) {
  record_sum(test.batch(), test.output({1}), test.input({100}), false);
}

}  // namespace

Cost cross_entropy_cost(const Shape& logits) {
  const auto elements = static_cast<double>(logits.elements());
  return {5 * elements, 8 * elements};
}

void record_cross_entropy(Batch& batch, const Tensor& loss, const Tensor& dlogits,
                          const CrossEntropyInputs& inputs) {
  const auto& [logits, targets, weight, soft_cap, terms] = inputs;
  constexpr std::string_view op = "cross_entropy";
  require(!logits.empty() && logits.shape().rank() == 2 && logits.elements() > 0,
          "{}: logits must be f32, bf16 or f16 [T, V] with at least one element, got {}", op,
          logits.text());
  const std::int64_t rows = logits.shape()[0];
  require_any_activation(op, "logits", logits, logits.shape());
  require_tensor(op, "loss", loss, {rows});
  require_tensor(op, "targets", targets, {rows}, DType::i32);
  const auto vocabulary = i32(logits.shape()[1]);
  std::vector<Argument> arguments{loss};
  const bool gradient = !dlogits.empty();
  const std::string_view function = gradient ? "cross_entropy_gradient" : "cross_entropy_loss";
  require_soft_cap(op, soft_cap);
  const bool capped = soft_cap != 0;
  require_loss_terms(op, terms, gradient, rows);
  const TestedForm form{gradient, capped, terms.any()};
  const std::string name =
      fmt::format("{}{}{}", function, capped ? " capped" : "", form.has_terms ? " with terms" : "");
  const auto self_test = [=](SelfTest& test) { record_test(test, form); };
  CrossEntropySpec spec(batch.context(), name, self_test, rows, logits.type());
  define_soft_cap(spec.defines, soft_cap);
  define_loss_terms(spec.defines, terms);
  if (gradient) {
    require_tensor(op, "dlogits", dlogits, logits.shape(), logits.type());
    const std::int32_t weight_step = loss_weight_step(op, weight, rows);
    arguments.insert(arguments.end(), {dlogits, logits, targets, weight, vocabulary, weight_step});
    if (terms.any()) arguments.emplace_back(terms.nll);
  } else {
    arguments.insert(arguments.end(), {logits, targets, vocabulary});
  }
  if (spec.cpu) arguments.emplace_back(rows);
  Cost cost = cross_entropy_cost(logits.shape());
  if (!gradient) cost.bytes /= 2;
  batch.record(launch_of(batch, spec, function, cost,
                         gradient ? "cross_entropy/gradient" : "cross_entropy/loss"),
               std::move(arguments));
}

void record_sum(Batch& batch, const Tensor& sum, const Tensor& x, bool accumulate) {
  require_tensor("sum", "sum", sum, {1});
  require(!x.empty() && x.elements() > 0, "sum: x must be f32 with at least one element, got {}",
          x.text());
  require_tensor("sum", "x", x, x.shape());
  const CrossEntropySpec spec(batch.context(), "sum_in_order", test_sum, 1, DType::f32);
  const auto count = static_cast<double>(x.elements());
  batch.launch(launch_of(batch, spec, "sum_in_order", {count, 4 * count}, "cross_entropy/sum"), sum,
               x, x.elements(), static_cast<std::int32_t>(accumulate));
}

void record_dot(Batch& batch, const Tensor& sum, const Tensor& x, const Tensor& y) {
  require_tensor("dot", "sum", sum, {1});
  require(!x.empty() && x.elements() > 0, "dot: x must be f32 with at least one element, got {}",
          x.text());
  require_tensor("dot", "x", x, x.shape());
  require_tensor("dot", "y", y, x.shape());
  const CrossEntropySpec spec(batch.context(), "dot_in_order", test_dot, 1, DType::f32);
  const auto count = static_cast<double>(x.elements());
  batch.launch(launch_of(batch, spec, "dot_in_order", {2 * count, 8 * count}, "cross_entropy/dot"),
               sum, x, y, x.elements());
}

}  // namespace clora
