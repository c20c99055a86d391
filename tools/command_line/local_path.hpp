// Paths of models, adapters and data. Those of the hub's local cache (lora/hub_cache.hpp) become
// the folder that they mean. An id of the Hugging Face hub is rejected with instructions for
// downloading its files, because clora downloads nothing.
#pragma once

#include <CLI/CLI.hpp>

namespace clora {

enum class HubKind { model, data_set };

// For Option::transform(). Rejects a text that looks like an id ("owner/name") and is not an
// existing path. Does not check that other paths exist; their reader does.
class LocalPath : public CLI::Validator {
 public:
  explicit LocalPath(HubKind kind);
};

}  // namespace clora
