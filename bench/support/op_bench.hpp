// OpBench: one op of the library, recorded, checked against its reference, then timed.
//
//   void softmax(OpBench& bench, const Shape& shape) {
//     const Operand x(shape, 1);
//     bench.cost = softmax_cost(shape);
//     bench.record([&](BufferSet& set) {
//       const Tensor y = set.output(shape);
//       record_softmax(set.batch(), y, set.input(x));
//       set.expect(y, [&] { return reference::softmax(x.values, ...); });
//     });
//   }
//   const bool kAdded = add_family([] {
//     add({.op = "softmax", .shape = {64, 1024}}, softmax, Shape{64, 1024});
//   });
//
// One replay runs the op on many sets of buffers in turn, together larger than the caches, so every
// set is read from memory. A bench whose name contains the word "warm" has one set. The timed unit
// is a number of replays followed by one wait; the number is chosen so that waking the device's
// threads accounts for about a hundredth of the time.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "bench/support/values.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {

class OpBench;

// The tensors of one buffer set, and the Batch that its op is recorded into.
class BufferSet {
 public:
  Batch& batch() noexcept { return batch_; }

  Tensor input(const Operand& operand) { return input(operand.shape, operand.floats); }
  Tensor input(const Shape& shape, std::span<const float> values);
  Tensor input(const Shape& shape, std::span<const std::int32_t> values);
  // A frozen matrix in the layout that the Context prefers.
  Tensor weights(const test::WeightMatrix& matrix);
  // An output filled with NaN, so unwritten elements are detected.
  Tensor output(const Shape& shape);
  // An output to accumulate into.
  Tensor zeros(const Shape& shape);
  // Adds any other tensor to this set, created on bench.context().
  Tensor keep(const Tensor& tensor);

  // Checks the result before timing. Only the functions given for the first set are called.
  void expect(const Tensor& result, std::function<std::vector<double>()> want);
  // error() returns the error of the results, which is compared with the tolerance.
  void expect_error(std::function<double()> error);

 private:
  friend class OpBench;
  BufferSet(OpBench& bench, Batch& batch, bool checks)
      : bench_(bench), batch_(batch), checks_(checks) {}

  OpBench& bench_;
  Batch& batch_;
  bool checks_;
  std::size_t bytes_ = 0;
};

class OpBench : public Prepared {
 public:
  OpBench(Arithmetic arithmetic, bool warm) : arithmetic_(arithmetic), warm_(warm) {}

  Context& context() const { return bench::context(arithmetic_); }

  Cost cost;  // per op
  // The largest error relative to the largest value; 0.02 if operands are cast to bf16.
  double tolerance = 1e-5;
  // How many times the body records the op on a set's buffers. More than one if the op is so short
  // that the submission would dominate the time ("queued" in the name), or if it shares work with
  // the same op of a model's other layers.
  std::size_t repeats = 1;
  static constexpr std::size_t kQueued = 32;

  // body(set) records the op on the set's buffers. It is called once for each set before record()
  // returns, and an additional time for the check.
  void record(const std::function<void(BufferSet&)>& body);
  // For host work: work() runs the op `ops` times; `error` is that of a previous result.
  void on_host(std::function<void()> work, double error, std::size_t ops = 1);

  // Reports the counters of one op: best_us and median_us; scratch_mib, the temporaries of a
  // replay; gflops, gbps and percent_of_roofline from the best replay, because other programs only
  // ever slow a replay down; core_gflops and core_gbps from the processor time of this process,
  // which is hardly affected by other programs on a shared CPU.
  void time(benchmark::State& state) override;

 private:
  friend class BufferSet;
  bool check_first_set(const std::function<void(BufferSet&)>& body);
  std::size_t sets_for(std::size_t bytes) const;
  void choose_turns();
  double seconds_of_one_turn();
  void report(benchmark::State& state, std::vector<double> seconds, double core_seconds) const;
  void print_profile();
  void accept(double error);

  Arithmetic arithmetic_;
  bool warm_;
  std::vector<std::function<double()>> checks_;
  std::optional<Batch> batch_;
  std::function<void()> work_;  // replaces batch_ for host work
  std::size_t ops_ = 1;         // per replay
  std::size_t turns_ = 1;       // replays between waits
  std::size_t first_set_bytes_ = 0;
  std::string failure_;
};

void add_op(const Name& name, Arithmetic arithmetic, std::function<void(OpBench&)> prepare);

// Registers a bench of f32 arithmetic, prepared by prepare(bench, arguments...).
template <class Function, class... Arguments>
void add(const Name& name, Function prepare, Arguments... arguments) {
  add_op(name, Arithmetic::f32, [=](OpBench& bench) { prepare(bench, arguments...); });
}
// Also registers NAME/bf16, whose products cast their operands to bf16, if the device supports it.
template <class Function, class... Arguments>
void add_both(const Name& name, Function prepare, Arguments... arguments) {
  add(name, prepare, arguments...);
  if (!has(Arithmetic::bf16)) return;
  add_op(name.with("bf16"), Arithmetic::bf16,
         [=](OpBench& bench) { prepare(bench, arguments...); });
}
// Also registers NAME/warm, whose buffers may stay in the caches: for ops that are this small in
// practice, and for comparison with programs that use one set of buffers.
template <class Function, class... Arguments>
void add_cold_and_warm(const Name& name, Function prepare, Arguments... arguments) {
  add(name, prepare, arguments...);
  add(name.with("warm"), prepare, arguments...);
}

}  // namespace clora::bench
