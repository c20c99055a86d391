#include "clora/ops/rowwise/swiglu.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/rowwise/gate_formula.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTestElements = 9001;  // several groups

void test_forward(SelfTest& test, DType type, bool saves, GateFunction function) {
  const Shape shape{kTestElements};
  const Tensor y = test.output(shape);
  const SwigluSaved saved =
      saves ? SwigluSaved{test.output(shape, DType::bf16), test.output(shape, DType::bf16)}
            : SwigluSaved{};
  record_swiglu(test.batch(), y, test.input(shape, 8, type), test.input(shape, 1, type), saved,
                function);
}

void test_backward(SelfTest& test, DType type, bool recompute, GateFunction function) {
  const Shape shape{kTestElements};
  const Tensor y = recompute ? test.output(shape) : Tensor();
  record_swiglu_backward(test.batch(), test.output(shape), test.output(shape), test.input(shape),
                         test.input(shape, 8, type), test.input(shape, 1, type), y, function);
}

// The function in swiglu_cpu.cl; empty unless y is f32 and gate f32 or bf16.
std::string_view cpu_forward(DType gate_type, DType y_type, bool saves) {
  if (y_type != DType::f32 || gate_type == DType::f16) return {};
  if (saves) return "swiglu_forward_saving";
  return gate_type == DType::bf16 ? "swiglu_forward_saved" : "swiglu_forward";
}

// The same for the backward, if all tensors except gate and up are f32.
std::string_view cpu_backward(DType gate_type, bool recompute) {
  if (gate_type == DType::f16) return {};
  if (gate_type == DType::f32) return recompute ? "swiglu_backward_recompute" : "swiglu_backward";
  return recompute ? "swiglu_backward_saved_recompute" : "swiglu_backward_saved";
}

// The type of two tensors, which must be equal.
DType type_of_pair(std::string_view name, const Tensor& a, std::string_view other, const Tensor& b,
                   const Shape& shape) {
  require_any_activation("swiglu", name, a, shape);
  require_tensor("swiglu", other, b, shape, a.type());
  return a.type();
}

void require_apart(std::string_view name, const Tensor& output, const Tensor& gate,
                   const Tensor& up) {
  require_apart_or_alike("swiglu", name, output, gate);
  require_apart_or_alike("swiglu", name, output, up);
}

void require_saved(const SwigluSaved& saved, const Tensor& gate, const Tensor& up) {
  require(gate.type() == DType::f32, "swiglu: gate must be f32 to save activations, got bf16");
  require_tensor("swiglu", "saved.gate", saved.gate, gate.shape(), DType::bf16);
  require_tensor("swiglu", "saved.up", saved.up, gate.shape(), DType::bf16);
  require_apart("saved.gate", saved.gate, gate, up);
  require_apart("saved.up", saved.up, gate, up);
}

void require_backward(const Tensor& dgate, const Tensor& dup, const Tensor& dy, const Tensor& gate,
                      const Tensor& up, const Tensor& y) {
  require_any_activation("swiglu", "dy", dy, gate.shape());
  type_of_pair("dgate", dgate, "dup", dup, gate.shape());
  if (!y.empty()) {
    require_any_activation("swiglu", "y", y, gate.shape());
    require(!overlap(y, dgate) && !overlap(y, dup), "swiglu: y must alias neither dgate nor dup");
  }
  for (const auto& [name, output] : {std::pair{"dgate", &dgate}, {"dup", &dup}, {"y", &y}}) {
    if (output->empty()) continue;
    require_apart(name, *output, gate, up);
    require_apart_or_alike("swiglu", name, *output, dy);
  }
}

}  // namespace

// An exp is counted as 8 flops.
Cost swiglu_cost(const Shape& y, DType gate_type, bool saves, DType y_type) {
  const auto n = static_cast<double>(y.elements());
  return {13 * n, (element_bytes(y_type) + 2 * element_bytes(gate_type) + (saves ? 4 : 0)) * n};
}

Cost swiglu_backward_cost(const Shape& dy, DType gate_type, DType dy_type, DType dgate_type,
                          std::optional<DType> y_type) {
  const auto n = static_cast<double>(dy.elements());
  const double of_y = y_type ? element_bytes(*y_type) : 0;
  return {(y_type ? 20 : 18) * n, (element_bytes(dy_type) + 2 * element_bytes(gate_type) +
                                   2 * element_bytes(dgate_type) + of_y) *
                                      n};
}

void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up,
                   const SwigluSaved& saved, GateFunction function) {
  const DType type = type_of_pair("gate", gate, "up", up, gate.shape());
  require_any_activation("swiglu", "y", y, gate.shape());
  require_apart("y", y, gate, up);
  const bool saves = !saved.gate.empty() || !saved.up.empty();
  if (saves) require_saved(saved, gate, up);
  const std::int64_t n = gate.elements();
  const VariantKernel kernel{.stem = "swiglu",
                             .function = saves ? "swiglu_forward_saving" : "swiglu_forward",
                             .cpu_function = cpu_forward(type, y.type(), saves),
                             .types = {{"GATE_TYPE", type}, {"Y_TYPE", y.type()}},
                             .formula = gate_formula(function),
                             .singly_on_cpus = true};
  Launch launch = flat_launch(batch.context(), kernel, n, n,
                              [=](SelfTest& test) { test_forward(test, type, saves, function); });
  launch.cost = swiglu_cost(gate.shape(), type, saves, y.type());
  launch.label = "swiglu/forward";
  std::vector<Argument> arguments{y, gate, up};
  if (saves) arguments.insert(arguments.end(), {saved.gate, saved.up});
  arguments.emplace_back(n);
  batch.record(std::move(launch), std::move(arguments));
}

void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up, const Tensor& y,
                            GateFunction function) {
  const DType type = type_of_pair("gate", gate, "up", up, gate.shape());
  require_backward(dgate, dup, dy, gate, up, y);
  const bool recompute = !y.empty();
  const std::int64_t n = gate.elements();
  VariantKernel kernel{
      .stem = "swiglu",
      .function = "swiglu_backward",
      .types = {{"GATE_TYPE", type}, {"DY_TYPE", dy.type()}, {"DGATE_TYPE", dgate.type()}},
      .formula = gate_formula(function),
      .singly_on_cpus = true};
  if (recompute) kernel.types.push_back({"Y_TYPE", y.type()});
  const auto is_f32 = [](const Tensor& t) { return t.type() == DType::f32; };
  if (is_f32(dy) && is_f32(dgate) && (!recompute || is_f32(y))) {
    kernel.cpu_function = cpu_backward(type, recompute);
  }
  Launch launch = flat_launch(batch.context(), kernel, n, n, [=](SelfTest& test) {
    test_backward(test, type, recompute, function);
  });
  launch.cost = swiglu_backward_cost(gate.shape(), type, dy.type(), dgate.type(),
                                     recompute ? std::optional(y.type()) : std::nullopt);
  launch.label = "swiglu/backward";
  std::vector<Argument> arguments{dgate, dup, dy, gate, up};
  if (recompute) arguments.emplace_back(y);
  arguments.emplace_back(n);
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
