#include "clora/model/transformer/forward_pass.hpp"

#include <algorithm>
#include <bit>
#include <list>
#include <optional>
#include <utility>

#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "lora/finite_values.hpp"
#include "model/data/text_packing.hpp"
#include "model/transformer/finite_check.hpp"
#include "model/transformer/recorded_model.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// The maximum number of recordings, each of which holds its logits.
constexpr std::size_t kMaxRecorded = 4;

// Exact for few rows, then in steps of an eighth: few recordings, little padding.
std::int64_t recorded_rows(std::size_t rows) {
  const std::size_t step = rows <= 16 ? 1 : std::max<std::size_t>(8, std::bit_floor(rows) / 8);
  return static_cast<std::int64_t>(round_up(rows, step));
}

// What a forward computes: logits, or the hidden states after some blocks.
struct Wanted {
  LogitRows rows = LogitRows::all;
  std::optional<std::int64_t> blocks = {};
  bool operator==(const Wanted&) const = default;
};

struct RecordedForward {
  RecordedForward(Context& context, std::int64_t row_count, Wanted what, std::int64_t width,
                  std::shared_ptr<Arena> arena)
      : wanted(what),
        rows(context, row_count, what.rows == LogitRows::all ? row_count : 1),
        output(context.allocate({rows.labelled_rows(), width}, DType::f32, MemoryTag::activations)),
        batch(context, std::move(arena)) {}

  Wanted wanted;
  RecordedRows rows;
  Tensor output;  // [T, V], [1, V] or [T, D]
  Batch batch;
};

// What the commands of one call use while they are in flight.
struct Call {
  std::vector<std::int32_t> staging;
  Fence uploaded;             // fence of the first command
  std::optional<Batch> copy;  // the last command
};
using Calls = std::list<HostHold<Call>>;  // oldest first

}  // namespace

struct ForwardPass::Impl {
  Impl(LanguageModel& m, const Adapter* a)
      : model(m),
        adapter(a),
        context(m.context()),
        is_causal(text_packing(m.config(), Pooling::last_token).is_causal),
        scales(m, a) {}

  void record(RecordedForward& forward);
  void record_output(RecordedForward& forward, Recording& recording);
  RecordedForward& forward_of(std::size_t rows, Wanted wanted);
  void check(std::span<const std::int32_t> ids) const;
  PackedRows pack(std::span<const std::int32_t> ids, const RecordedForward& forward) const;
  // Enqueues the forward and returns its output without padding, which the next call overwrites.
  Tensor run(RecordedForward& forward, std::span<const std::int32_t> ids, Call& call);
  // The same for a new call, and waits.
  std::vector<float> read(RecordedForward& forward, std::span<const std::int32_t> ids);
  // drop() removes the calls before `end`, which must be finished; forget_done() removes those
  // known to be finished.
  void drop(Calls::iterator end);
  void forget_done();

  LanguageModel& model;
  const Adapter* adapter;
  Context& context;
  bool is_causal;
  ColumnScales scales;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::list<RecordedForward> forwards;  // most recently used first
  Calls calls;                          // possibly in flight
};

void ForwardPass::Impl::record(RecordedForward& forward) {
  const RecordedRows& rows = forward.rows;
  Recording recording(model, forward.batch,
                      {.rows = {rows.positions(), rows.first(), rows.last()},
                       .positions = rows.rows(),
                       .type = context.activation_type(),
                       .adapter = adapter,
                       .column_scales = &scales});
  record_output(forward, recording);
  forward.batch.seal();
}

void ForwardPass::Impl::record_output(RecordedForward& forward, Recording& recording) {
  const Wanted& wanted = forward.wanted;
  ModelInputs inputs{.ids = forward.rows.ids()};
  if (wanted.rows == LogitRows::last) inputs.selected = forward.rows.labelled();
  const bool is_inside = wanted.blocks && *wanted.blocks < model.config().layers;
  if (is_inside) {
    inputs.after_blocks = [&](const Tensor& x, std::int64_t blocks) {
      if (blocks == wanted.blocks) forward.batch.copy(forward.output, x);
    };
  }
  const RecordedModel recorded(recording, inputs);
  if (!wanted.blocks) return recorded.record_logits(forward.output);
  if (!is_inside) forward.batch.copy(forward.output, recorded.output());
}

RecordedForward& ForwardPass::Impl::forward_of(std::size_t rows, Wanted wanted) {
  const std::int64_t count = recorded_rows(rows);
  const auto found = std::ranges::find_if(forwards, [&](const RecordedForward& f) {
    return f.wanted == wanted && f.rows.rows() == count;
  });
  if (found != forwards.end()) {
    forwards.splice(forwards.begin(), forwards, found);
    return forwards.front();
  }
  if (forwards.size() >= kMaxRecorded) {
    context.finish();  // the forward to drop may still run
    forwards.pop_back();
  }
  const ModelConfig& config = model.config();
  RecordedForward& recorded = forwards.emplace_front(
      context, count, wanted, wanted.blocks ? config.hidden_size : config.vocabulary, arena);
  try {
    record(recorded);
  } catch (...) {  // an incomplete recording must not be replayed
    forwards.pop_front();
    throw;
  }
  return recorded;
}

void ForwardPass::Impl::check(std::span<const std::int32_t> ids) const {
  require(!ids.empty(), "forward pass: at least one token is required, got none");
  model.require_context(std::ssize(ids));
  const std::int64_t vocabulary = model.config().vocabulary;
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocabulary, "forward pass: ids must be in [0, {}), got {}", vocabulary,
            id);
  }
}

PackedRows ForwardPass::Impl::pack(std::span<const std::int32_t> ids,
                                   const RecordedForward& forward) const {
  const std::vector<std::uint8_t> unlabelled(ids.size());
  const RecordView record(ids, unlabelled);
  PackedRows packed =
      pack_rows(std::span(&record, 1), static_cast<std::size_t>(forward.rows.rows()));
  packed.targets[ids.size() - 1] = 0;  // the row to gather; its prediction is not used
  packed.target_count = 1;
  if (!is_causal) std::fill_n(packed.last.begin(), ids.size(), static_cast<int>(ids.size()) - 1);
  return packed;
}

Tensor ForwardPass::Impl::run(RecordedForward& forward, std::span<const std::int32_t> ids,
                              Call& call) {
  call.uploaded = forward.rows.upload(context, pack(ids, forward), {}, call.staging);
  scales.update();  // the adapter may have been trained since
  forward.batch.submit();
  return forward.wanted.rows == LogitRows::last
             ? forward.output
             : forward.output.rows(0, static_cast<std::int64_t>(ids.size()));
}

std::vector<float> ForwardPass::Impl::read(RecordedForward& forward,
                                           std::span<const std::int32_t> ids) {
  Call& call = *calls.emplace_back(context);
  const Tensor output = run(forward, ids, call);
  std::vector<float> values = context.read<float>(output);
  drop(calls.end());
  return values;
}

void ForwardPass::Impl::drop(Calls::iterator end) {
  std::for_each(calls.begin(), end, [](auto& call) { call.mark_idle(); });
  calls.erase(calls.begin(), end);
}

// The queue is in order: if a call's upload has passed, all calls before it are finished.
void ForwardPass::Impl::forget_done() {
  const auto begun = std::find_if(calls.rbegin(), calls.rend(),
                                  [](const auto& call) { return call->uploaded.passed(); });
  if (begun != calls.rend()) drop(std::prev(begun.base()));
}

ForwardPass::ForwardPass(LanguageModel& model, const Adapter* adapter)
    : impl_(std::make_unique<Impl>(model, adapter)) {}

ForwardPass::ForwardPass(ForwardPass&&) noexcept = default;
ForwardPass& ForwardPass::operator=(ForwardPass&&) noexcept = default;

ForwardPass::~ForwardPass() = default;  // each call in flight waits for its end

std::vector<float> ForwardPass::logits(std::span<const std::int32_t> ids, LogitRows rows) {
  impl_->check(ids);
  std::vector<float> values = impl_->read(impl_->forward_of(ids.size(), {rows}), ids);
  if (!all_finite(values)) {
    fail_not_finite("forward pass: a logit", impl_->model, impl_->adapter,
                    "every weight is finite; activations are too large for 32-bit floats");
  }
  return values;
}

std::vector<float> ForwardPass::hidden_states(std::span<const std::int32_t> ids,
                                              std::int64_t blocks) {
  impl_->check(ids);
  const std::int64_t layers = impl_->model.config().layers;
  require(blocks >= 0 && blocks <= layers,
          "forward pass: hidden states are those after 0 to {} blocks, got {}", layers, blocks);
  return impl_->read(impl_->forward_of(ids.size(), {LogitRows::all, blocks}), ids);
}

Fence ForwardPass::enqueue(const Tensor& out, std::span<const std::int32_t> ids, LogitRows rows,
                           std::span<const cl_event> wait_list) {
  impl_->check(ids);
  const auto count = rows == LogitRows::all ? static_cast<std::int64_t>(ids.size()) : 1;
  require_tensor("forward pass", "out", out, {count, impl_->model.config().vocabulary});
  impl_->forget_done();
  // Recording may wait for the queue, so it precedes the wait for the caller's events.
  RecordedForward& forward = impl_->forward_of(ids.size(), {rows});
  impl_->context.wait_for(wait_list);
  Call& call = *impl_->calls.emplace_back(impl_->context);
  const Tensor logits = impl_->run(forward, ids, call);
  call.copy.emplace(impl_->context);
  call.copy->copy(out, logits);
  return call.copy->submit();
}

}  // namespace clora
