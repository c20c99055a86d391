#include "clora/model/transformer/forward_pass.hpp"

#include <algorithm>
#include <bit>
#include <list>
#include <optional>
#include <utility>

#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "lora/finite_values.hpp"
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

struct RecordedForward {
  RecordedForward(Context& context, std::int64_t row_count, LogitRows which,
                  std::int64_t vocabulary, std::shared_ptr<Arena> arena)
      : kind(which),
        rows(context, row_count, which == LogitRows::all ? row_count : 1),
        logits(context.allocate({rows.labelled_rows(), vocabulary}, DType::f32,
                                MemoryTag::activations)),
        batch(context, std::move(arena)) {}

  LogitRows kind;
  RecordedRows rows;
  Tensor logits;
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
      : model(m), adapter(a), context(m.context()), scales(m, a) {}

  void record(RecordedForward& forward);
  RecordedForward& forward_of(std::size_t rows, LogitRows kind);
  void check(std::span<const std::int32_t> ids) const;
  PackedRows pack(std::span<const std::int32_t> ids, const RecordedForward& forward) const;
  // Enqueues the forward and returns its logits [T, V] or [1, V], which the next call overwrites.
  Tensor run(RecordedForward& forward, std::span<const std::int32_t> ids, Call& call);
  // drop() removes the calls before `end`, which must be finished; forget_done() removes those
  // known to be finished.
  void drop(Calls::iterator end);
  void forget_done();

  LanguageModel& model;
  const Adapter* adapter;
  Context& context;
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
  const bool last = forward.kind == LogitRows::last;
  const RecordedModel recorded(recording,
                               {.ids = rows.ids(), .selected = last ? rows.labelled() : Tensor()});
  recorded.record_logits(forward.logits);
  forward.batch.seal();
}

RecordedForward& ForwardPass::Impl::forward_of(std::size_t rows, LogitRows kind) {
  const std::int64_t count = recorded_rows(rows);
  const auto found = std::ranges::find_if(
      forwards, [&](const RecordedForward& f) { return f.kind == kind && f.rows.rows() == count; });
  if (found != forwards.end()) {
    forwards.splice(forwards.begin(), forwards, found);
    return forwards.front();
  }
  if (forwards.size() >= kMaxRecorded) {
    context.finish();  // the forward to drop may still run
    forwards.pop_back();
  }
  RecordedForward& recorded =
      forwards.emplace_front(context, count, kind, model.config().vocabulary, arena);
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
  return packed;
}

Tensor ForwardPass::Impl::run(RecordedForward& forward, std::span<const std::int32_t> ids,
                              Call& call) {
  call.uploaded = forward.rows.upload(context, pack(ids, forward), {}, call.staging);
  scales.update();  // the adapter may have been trained since
  forward.batch.submit();
  return forward.kind == LogitRows::last
             ? forward.logits
             : forward.logits.rows(0, static_cast<std::int64_t>(ids.size()));
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
  RecordedForward& forward = impl_->forward_of(ids.size(), rows);
  Call& call = *impl_->calls.emplace_back(impl_->context);
  const Tensor logits = impl_->run(forward, ids, call);
  std::vector<float> values = impl_->context.read<float>(logits);
  impl_->drop(impl_->calls.end());
  if (!all_finite(values)) {
    fail_not_finite("forward pass: a logit", impl_->model, impl_->adapter,
                    "every weight is finite; activations are too large for 32-bit floats");
  }
  return values;
}

Fence ForwardPass::enqueue(const Tensor& out, std::span<const std::int32_t> ids, LogitRows rows,
                           std::span<const cl_event> wait_list) {
  impl_->check(ids);
  const auto count = rows == LogitRows::all ? static_cast<std::int64_t>(ids.size()) : 1;
  require_tensor("forward pass", "out", out, {count, impl_->model.config().vocabulary});
  impl_->forget_done();
  // Recording may wait for the queue, so it precedes the wait for the caller's events.
  RecordedForward& forward = impl_->forward_of(ids.size(), rows);
  impl_->context.wait_for(wait_list);
  Call& call = *impl_->calls.emplace_back(impl_->context);
  const Tensor logits = impl_->run(forward, ids, call);
  call.copy.emplace(impl_->context);
  call.copy->copy(out, logits);
  return call.copy->submit();
}

}  // namespace clora
