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
// One replay runs the op on many sets of buffers by turns, together larger than the caches, so that
// every set comes from memory; a bench whose name holds the word "warm" has one set. What is timed
// is replays: submit, and wait once; as many of them between two waits as make waking the device's
// threads a hundredth of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/session.hpp"
#include "bench/support/values.hpp"
#include "runtime/batch.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {

class OpBench;

// The tensors of one of the sets that take turns, and the Batch that its op goes into.
class BufferSet {
 public:
  Batch& batch() noexcept { return batch_; }

  Tensor input(const Operand& operand) { return input(operand.shape, operand.floats); }
  Tensor input(const Shape& shape, std::span<const float> values);
  Tensor input(const Shape& shape, std::span<const std::int32_t> values);
  // A frozen matrix, laid out as serves the Context best.
  Tensor weights(const test::WeightMatrix& matrix);
  // Where a result goes: NaN, so that what is not written shows.
  Tensor output(const Shape& shape);
  // Where a result is added.
  Tensor zeros(const Shape& shape);
  // Any other tensor of this set, made on bench.context().
  Tensor keep(const Tensor& tensor);

  // The result is checked before anything is timed. Only the first set's functions are called.
  void expect(const Tensor& result, std::function<std::vector<double>()> want);
  // error(): what is wrong with the results, to be compared with the tolerance.
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

  Cost cost;  // of one op
  // The largest error relative to the largest value; two hundredths where operands are rounded to
  // bf16.
  double tolerance = 1e-5;
  // How often the body records the op on a set's buffers: more than once where the op is so short
  // that submitting a batch of one would be what is timed ("queued" in the name), or where it
  // shares something with the same op of a model's other layers.
  std::size_t repeats = 1;
  static constexpr std::size_t kQueued = 32;

  // body(set) records the op on the set's buffers; it is called for each set before this returns.
  void record(const std::function<void(BufferSet&)>& body);
  // For work on the host: work() does the op `ops` times, `error` is that of a first result.
  void on_host(std::function<void()> work, double error, std::size_t ops = 1);

  // Counters of one op: best_us, median_us; scratch_mib, of a replay's temporaries; by the best
  // replay (other programs only ever make one slower) gflops, gbps and percent_of_ceiling; by
  // processor time of this process, which other programs on a shared CPU hardly change, core_gflops
  // and core_gbps.
  void time(benchmark::State& state) override;

 private:
  friend class BufferSet;
  bool check_first_set(const std::function<void(BufferSet&)>& body);
  std::size_t sets_for(std::size_t bytes) const;
  void choose_turns();
  double seconds_of_one_turn();
  void report(benchmark::State& state, std::vector<double> seconds, double core_seconds) const;
  void accept(double error);

  Arithmetic arithmetic_;
  bool warm_;
  std::vector<std::function<double()>> checks_;
  std::optional<Batch> batch_;
  std::function<void()> work_;  // instead of batch_
  std::size_t ops_ = 1;         // in a replay
  std::size_t turns_ = 1;       // replays between two waits
  std::size_t first_set_bytes_ = 0;
  std::string failure_;
};

void add_op(const Name& name, Arithmetic arithmetic, std::function<void(OpBench&)> prepare);

// Registers a bench of f32 arithmetic, prepared by prepare(bench, arguments...).
template <class Function, class... Arguments>
void add(const Name& name, Function prepare, Arguments... arguments) {
  add_op(name, Arithmetic::f32, [=](OpBench& bench) { prepare(bench, arguments...); });
}
// And, where the device has it, one whose products round their operands to bf16: NAME/bf16.
template <class Function, class... Arguments>
void add_both(const Name& name, Function prepare, Arguments... arguments) {
  add(name, prepare, arguments...);
  if (!has(Arithmetic::bf16)) return;
  add_op(name.with("bf16"), Arithmetic::bf16,
         [=](OpBench& bench) { prepare(bench, arguments...); });
}
// And one whose buffers may stay in the caches, for work so small that it finds them there, or
// that is compared with programs which do: NAME/warm.
template <class Function, class... Arguments>
void add_cold_and_warm(const Name& name, Function prepare, Arguments... arguments) {
  add(name, prepare, arguments...);
  add(name.with("warm"), prepare, arguments...);
}

}  // namespace clora::bench
