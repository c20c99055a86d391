#include "python/src/bindings.hpp"

NB_MODULE(_clora, module) {
  using namespace clora::python;
  module.doc() = "The C++ interface of clora; import clora instead.";
  module.attr("version") = CLORA_VERSION;
  // A program that ends by an exception leaves objects behind, which is no fault of the module.
  nanobind::set_leak_warnings(false);
  bind_errors(module);
  bind_context(module);
  bind_tensor(module);
  bind_batch(module);
  bind_rowwise_ops(module);
  bind_product_ops(module);
  bind_attention_ops(module);
  bind_tokenizer(module);
  bind_adapter(module);
  bind_model(module);
  bind_records(module);
  bind_run_config(module);
  bind_trainer(module);
  bind_engine(module);
}
