// Paths of models, adapters and data: an id of the Hugging Face hub is refused with how to get its
// files, since nothing here downloads.
#pragma once

#include <CLI/CLI.hpp>

namespace clora {

enum class HubKind { model, data_set };

// Takes every text but one that looks like an id ("owner/name") and is no path here. Whether a path
// leads anywhere is for its reader to say.
class LocalPath : public CLI::Validator {
 public:
  explicit LocalPath(HubKind kind);
};

}  // namespace clora
