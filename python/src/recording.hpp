// Recorder: a Batch of commands, as Python holds it, and how the ops record into it.
#pragma once

#include <utility>

#include "clora/runtime/commands/batch.hpp"
#include "python/src/device_tensor.hpp"

namespace clora::python {

using Recorder = OnContext<Batch>;

// Calls record(batch), which may build the kernels that it needs.
template <class Record>
void record_in(Recorder& recorder, Record&& record) {
  on_device(recorder.context(), [&] { std::forward<Record>(record)(*recorder); });
}

}  // namespace clora::python
