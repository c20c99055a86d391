// The parts of the extension module clora._clora, one function and one file for each noun.
//
// The module is the C++ interface with NumPy arrays, lists and strings in place of tensors and
// spans; what users see is the Python layer in python/clora, which alone imports it.
#pragma once

#include <nanobind/nanobind.h>

namespace clora::python {

void bind_errors(nanobind::module_& module);
void bind_context(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_batch(nanobind::module_& module);
void bind_rowwise_ops(nanobind::module_& module);
void bind_product_ops(nanobind::module_& module);
void bind_attention_ops(nanobind::module_& module);
void bind_tokenizer(nanobind::module_& module);
void bind_adapter(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_records(nanobind::module_& module);
void bind_run_config(nanobind::module_& module);
void bind_trainer(nanobind::module_& module);
void bind_engine(nanobind::module_& module);

}  // namespace clora::python
