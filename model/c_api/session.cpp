// clora.h: sessions, their adapters and the forward pass.
#include <algorithm>
#include <cmath>
#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::int64_t kDefaultPositions = 2048;

clora_session& session_of(clora_session* session, std::string_view who) {
  require_given(session, who, "session");
  return *session;
}

std::span<const std::int32_t> ids_of(const int32_t* ids, std::size_t count, std::string_view who) {
  require_given(ids, who, "ids");
  return {ids, count};
}

std::int64_t positions_of(const clora_session_options& options, const ModelConfig& config) {
  require(options.max_positions >= 0,
          "clora_session_create: max_positions must not be negative, got {}",
          options.max_positions);
  const std::int64_t wanted = options.max_positions > 0 ? options.max_positions : kDefaultPositions;
  if (config.max_positions == 0) return wanted;
  require(options.max_positions <= config.max_positions,
          "clora_session_create: the model supports {} positions, got max_positions {}",
          config.max_positions, options.max_positions);
  return std::min(wanted, config.max_positions);
}

// The same modules with other scales. Waits.
std::shared_ptr<AdapterCore> scaled_copy(const AdapterCore& core, double scale) {
  const Adapter& own = core.adapter;
  std::vector<AdapterModule> modules = own.modules();
  for (AdapterModule& module : modules) {
    module.scale = static_cast<float>(static_cast<double>(module.scale) * scale);
  }
  Adapter scaled(own.context(), std::move(modules), own.config(), own.saved_tensors());
  own.context().write(scaled.parameters(), own.context().read<std::byte>(own.parameters()));
  return std::shared_ptr<AdapterCore>(new AdapterCore{core.model, std::move(scaled)});
}

void set_adapter(clora_session& session, std::shared_ptr<AdapterCore> adapter) {
  if (session.adapter == adapter) return;
  session.generator.reset();  // they reference the previous adapter's matrices
  session.forward.reset();
  session.evaluator.reset();
  session.embedder.reset();
  session.adapter = std::move(adapter);
}

LogitRows rows_of(std::int64_t rows, std::string_view who) {
  require(rows == CLORA_LOGITS_ALL || rows == CLORA_LOGITS_LAST,
          "{}: rows must be CLORA_LOGITS_ALL or CLORA_LOGITS_LAST, got {}", who, rows);
  return rows == CLORA_LOGITS_ALL ? LogitRows::all : LogitRows::last;
}

// A forward needs no cache, but has the same limit as generation.
void require_fits(const clora_session& session, std::size_t count, std::string_view who) {
  require(static_cast<std::int64_t>(count) <= session.max_positions,
          "{}: the session has space for {} tokens, got {}", who, session.max_positions, count);
}

Shape logits_shape(const clora_session& session, std::size_t count, LogitRows rows) {
  return {rows == LogitRows::all ? static_cast<std::int64_t>(count) : 1,
          session.model->model->config().vocabulary};
}

void attach(clora_session* session, const clora_adapter* adapter, double scale,
            std::string_view who) {
  clora_session& own = session_of(session, who);
  require_given(adapter, who, "adapter");
  require(adapter->core->model == own.model,
          "{}: the adapter must belong to the session's model; load it with that model", who);
  set_adapter(own, scale == 1 ? adapter->core : scaled_copy(*adapter->core, scale));
}

Fence enqueue(clora_session& session, std::span<const std::int32_t> ids,
              const clora_forward_target& target, std::string_view who) {
  require_given(target.logits, who, "target's logits");
  if (target.wait_count > 0) require_given(target.wait_list, who, "target's wait_list");
  require_fits(session, ids.size(), who);
  const LogitRows rows = rows_of(target.rows, who);
  const Tensor out = session.model->context->context.adopt(
      target.logits, logits_shape(session, ids.size(), rows), DType::f32, target.offset_bytes);
  return forward_of(session).enqueue(out, ids, rows,
                                     std::span(target.wait_list, target.wait_count));
}

}  // namespace

Generator& generator_of(clora_session& session) {
  if (session.generator == nullptr) {
    session.generator =
        std::make_unique<Generator>(*session.model->model, session.adapter_or_null(),
                                    session.max_positions, session.kv_cache_type);
  }
  return *session.generator;
}

ForwardPass& forward_of(clora_session& session) {
  if (session.forward == nullptr) {
    session.forward =
        std::make_unique<ForwardPass>(*session.model->model, session.adapter_or_null());
  }
  return *session.forward;
}

Evaluator& evaluator_of(clora_session& session) {
  if (session.evaluator == nullptr) {
    session.evaluator =
        std::make_unique<Evaluator>(*session.model->model, session.adapter_or_null());
  }
  return *session.evaluator;
}

}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_session_create(clora_model* model, const clora_session_options* options,
                                  clora_session** session) {
  constexpr std::string_view kWho = "clora_session_create";
  return guarded_create(session, kWho, [&] {
    require_given(model, kWho, "model");
    auto created = std::make_unique<clora_session>();
    created->model = model->core;
    const clora_session_options given = read_struct(options, kWho);
    created->max_positions = positions_of(given, model->core->model->config());
    if (given.kv_cache_type != nullptr) {
      created->kv_cache_type = named_kv_cache_type(given.kv_cache_type);
    }
    // The tables are built here because that waits, and clora_forward_enqueue() must not.
    model->core->model->prepare_rope_tables(created->max_positions);
    return created.release();
  });
}

void clora_session_release(clora_session* session) { delete session; }

clora_status clora_session_attach(clora_session* session, clora_adapter* adapter) {
  return guarded([&] { attach(session, adapter, 1, "clora_session_attach"); });
}

clora_status clora_session_attach_scaled(clora_session* session, clora_adapter* adapter,
                                         double scale) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_session_attach_scaled";
    require(std::isfinite(scale), "{}: the scale must be finite, got {}", kWho, scale);
    attach(session, adapter, scale, kWho);
  });
}

clora_status clora_session_detach(clora_session* session) {
  return guarded([&] { set_adapter(session_of(session, "clora_session_detach"), nullptr); });
}

clora_status clora_forward(clora_session* session, const int32_t* ids, size_t id_count,
                           int32_t rows, float* logits, size_t capacity) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_forward";
    clora_session& own = session_of(session, kWho);
    require_given(logits, kWho, "logits");
    require_fits(own, id_count, kWho);
    const LogitRows which = rows_of(rows, kWho);
    const auto needed = static_cast<std::size_t>(logits_shape(own, id_count, which).elements());
    require(capacity >= needed, "{}: the array must have space for {} logits, got {}", kWho, needed,
            capacity);
    const std::vector<float> values = forward_of(own).logits(ids_of(ids, id_count, kWho), which);
    own.model->context->forward_tokens += id_count;
    std::ranges::copy(values, logits);
  });
}

clora_status clora_forward_hidden(clora_session* session, const int32_t* ids, size_t id_count,
                                  int64_t layer, float* hidden, size_t capacity) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_forward_hidden";
    clora_session& own = session_of(session, kWho);
    require_given(hidden, kWho, "hidden");
    require_fits(own, id_count, kWho);
    const auto width = static_cast<std::size_t>(own.model->model->config().hidden_size);
    require(capacity >= id_count * width, "{}: the array must have space for {} values, got {}",
            kWho, id_count * width, capacity);
    const std::vector<float> values =
        forward_of(own).hidden_states(ids_of(ids, id_count, kWho), layer);
    own.model->context->forward_tokens += id_count;
    std::ranges::copy(values, hidden);
  });
}

clora_status clora_forward_enqueue(clora_session* session, const int32_t* ids, size_t id_count,
                                   const clora_forward_target* target, cl_event* event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    constexpr std::string_view kWho = "clora_forward_enqueue";
    clora_session& own = session_of(session, kWho);
    require_given(target, kWho, "target");
    Fence done = enqueue(own, ids_of(ids, id_count, kWho), read_struct(target, kWho), kWho);
    own.model->context->forward_tokens += id_count;
    if (event != nullptr) *event = done.take_event();
  });
}
