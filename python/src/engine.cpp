// Engines: generation for many requests at once.
#include "clora/model/generation/engine.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "python/src/bindings.hpp"
#include "python/src/error_codes.hpp"
#include "python/src/loaded_model.hpp"
#include "python/src/text.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

// Keeps what the engine uses alive. submit(), cancel() and statistics() do not wait for a step.
class LoadedEngine {
 public:
  LoadedEngine(ModelHandle model, AdapterHandle base, std::shared_ptr<Text> text,
               const EngineConfig& config)
      : model_(std::move(model)),
        base_(std::move(base)),
        text_(std::move(text)),
        engine_(model_->context(), [&] {
          EngineConfig own = config;
          own.base_adapter = adapter_or_null(base_);
          own.tokenizer = text_ ? &text_->tokenizer : nullptr;
          return Engine(*model_->model, own);
        }) {}

  RequestId submit(const GenerationRequest& request) {
    return without_gil([&] { return engine_->submit(request); });
  }
  void cancel(RequestId request) {
    without_gil([&] { engine_->cancel(request); });
  }
  std::vector<GenerationEvent> step() {
    return on_device(engine_.context(), [&] { return engine_->step(); });
  }
  bool is_idle() {
    return on_device(engine_.context(), [&] { return engine_->is_idle(); });
  }
  void add_adapter(const std::string& name, const LoadedAdapter& adapter) {
    on_device(engine_.context(), [&] { engine_->add_adapter(name, *adapter.adapter); });
  }
  void remove_adapter(const std::string& name) {
    on_device(engine_.context(), [&] { engine_->remove_adapter(name); });
  }
  EngineStatistics statistics() {
    return without_gil([&] { return engine_->statistics(); });
  }
  std::vector<std::string> adapter_names() { return engine_->adapter_names(); }

 private:
  ModelHandle model_;
  AdapterHandle base_;
  std::shared_ptr<Text> text_;
  OnContext<Engine> engine_;
};

nb::dict dict_of(const GeneratedToken& token) {
  nb::dict dict;
  dict["id"] = token.id;
  dict["logprob"] = token.logprob;
  nb::list top;
  for (const TokenLogprob& each : token.top_logprobs)
    top.append(nb::make_tuple(each.id, each.logprob));
  dict["top_logprobs"] = top;
  return dict;
}

nb::list list_of(const std::vector<GeneratedToken>& tokens) {
  nb::list list;
  for (const GeneratedToken& token : tokens) list.append(dict_of(token));
  return list;
}

nb::dict dict_of(const GenerationEvent& event) {
  nb::dict dict;
  dict["request"] = event.request;
  dict["text"] = event.text;
  dict["tokens"] = list_of(event.tokens);
  dict["prompt_logprobs"] = list_of(event.prompt_logprobs);
  dict["finish_reason"] =
      event.finish_reason ? nb::object(nb::str(std::string(name_of(*event.finish_reason)).c_str()))
                          : nb::object(nb::none());
  dict["error"] = event.error;
  dict["error_code"] = event.error.empty() ? "" : name_of_code(event.error_code);
  dict["prompt_tokens"] = event.prompt_tokens;
  dict["cached_tokens"] = event.cached_tokens;
  dict["generated_tokens"] = event.generated_tokens;
  return dict;
}

nb::dict dict_of(const EngineStatistics& now) {
  nb::dict dict;
  dict["running"] = now.running;
  dict["waiting"] = now.waiting;
  dict["pages"] = now.pages;
  dict["used_pages"] = now.used_pages;
  dict["cached_pages"] = now.cached_pages;
  dict["prompt_tokens"] = now.prompt_tokens;
  dict["cached_prompt_tokens"] = now.cached_prompt_tokens;
  dict["generated_tokens"] = now.generated_tokens;
  dict["steps"] = now.steps;
  dict["memory_bytes"] = now.memory_bytes;
  return dict;
}

void set_grammar(GenerationRequest& request, const Text& text, const std::string& json_schema,
                 const std::string& gbnf) {
  const GrammarVocabulary vocabulary(text.tokenizer);
  request.grammar = gbnf.empty() ? TokenGrammar::from_json_schema(json_schema, vocabulary)
                                 : TokenGrammar::from_gbnf(gbnf, vocabulary);
}

void set_adapters(GenerationRequest& request,
                  const std::vector<std::pair<std::string, double>>& adapters) {
  request.adapters.clear();
  for (const auto& [name, scale] : adapters) {
    request.adapters.push_back({.name = name, .scale = scale});
  }
}

void bind_request(nb::module_& module) {
  nb::class_<SamplingConfig>(module, "SamplingConfig")
      .def_rw("temperature", &SamplingConfig::temperature)
      .def_rw("top_k", &SamplingConfig::top_k)
      .def_rw("top_p", &SamplingConfig::top_p)
      .def_rw("min_p", &SamplingConfig::min_p)
      .def_rw("typical_p", &SamplingConfig::typical_p)
      .def_rw("repetition_penalty", &SamplingConfig::repetition_penalty)
      .def_rw("presence_penalty", &SamplingConfig::presence_penalty)
      .def_rw("frequency_penalty", &SamplingConfig::frequency_penalty)
      .def_rw("logit_bias", &SamplingConfig::logit_bias)
      .def_rw("seed", &SamplingConfig::seed)
      .def_rw("logprobs", &SamplingConfig::logprobs)
      .def_rw("top_logprobs", &SamplingConfig::top_logprobs);
  nb::class_<GenerationRequest>(module, "GenerationRequest")
      .def(nb::init<>())
      .def_rw("prompt", &GenerationRequest::prompt)
      .def_rw("max_tokens", &GenerationRequest::max_tokens)
      .def_rw("sampling", &GenerationRequest::sampling)
      .def_rw("prompt_logprobs", &GenerationRequest::prompt_logprobs)
      .def_rw("end_ids", &GenerationRequest::end_ids)
      .def_rw("stop_texts", &GenerationRequest::stop_texts)
      .def_rw("draft_tokens", &GenerationRequest::draft_tokens)
      .def("set_grammar", &set_grammar, nb::arg("text"), nb::arg("json_schema"), nb::arg("gbnf"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("set_adapters", &set_adapters, nb::arg("adapters"));
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_request(module);
  nb::class_<LoadedEngine>(module, "Engine")
      .def("submit", &LoadedEngine::submit, nb::arg("request"))
      .def("cancel", &LoadedEngine::cancel, nb::arg("request"))
      .def("step",
           [](LoadedEngine& self) {
             nb::list events;
             for (const GenerationEvent& event : self.step()) events.append(dict_of(event));
             return events;
           })
      .def("is_idle", &LoadedEngine::is_idle)
      .def("add_adapter", &LoadedEngine::add_adapter, nb::arg("name"), nb::arg("adapter"))
      .def("remove_adapter", &LoadedEngine::remove_adapter, nb::arg("name"))
      .def("adapter_names", &LoadedEngine::adapter_names)
      .def("statistics", [](LoadedEngine& self) { return dict_of(self.statistics()); });
  module.def(
      "make_engine",
      [](const ModelHandle& model, const AdapterHandle& base, const std::shared_ptr<Text>& text,
         std::int64_t max_sequences, std::int64_t max_positions, std::int64_t cache_positions,
         std::int64_t step_tokens, const std::string& cache_type, std::int64_t device_adapters,
         std::int64_t max_rank) {
        const EngineConfig config{.max_sequences = max_sequences,
                                  .max_positions = max_positions,
                                  .cache_positions = cache_positions,
                                  .step_tokens = step_tokens,
                                  .cache_type = named_kv_cache_type(cache_type),
                                  .device_adapters = device_adapters,
                                  .max_rank = max_rank};
        return new LoadedEngine(model, base, text, config);
      },
      nb::arg("model"), nb::arg("base").none(), nb::arg("text").none(), nb::arg("max_sequences"),
      nb::arg("max_positions"), nb::arg("cache_positions"), nb::arg("step_tokens"),
      nb::arg("cache_type"), nb::arg("device_adapters"), nb::arg("max_rank"),
      nb::rv_policy::take_ownership);
}

}  // namespace clora::python
