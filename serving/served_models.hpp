// ServedModels: the names that a request's "model" may have: the base model and adapters, which
// come and go while the server runs. Thread-safe.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/generation/generation_request.hpp"

namespace clora {

class ServedModels {
 public:
  // `path` is shown as the root of the base model.
  ServedModels(std::string base, std::string path);

  // Errors: those of add().
  void require_free(const std::string& adapter) const;
  // Errors: RequestError (400): the name is taken, by the base model or by an adapter, or is no
  // name: 1 to 128 letters, digits and the marks . _ : / @ -
  void add(const std::string& adapter, std::string path);
  // Errors: RequestError (404): no adapter has the name.
  void remove(const std::string& adapter);

  const std::string& base() const { return base_.name; }

  // The adapters of a request: those that it lists, else that of its model. An empty model is the
  // base. Errors: RequestError: 404, model_not_found; 400 if both an adapter and a list are given.
  std::vector<AdapterUse> uses_of(const std::string& model,
                                  const std::vector<AdapterUse>& listed) const;

  // The reply to GET /v1/models: the base model, then the adapters, with root and parent.
  nlohmann::json list() const;
  // One of them. Errors: RequestError (404).
  nlohmann::json describe(const std::string& model) const;

 private:
  struct Entry {
    std::string name;
    std::string path;
    std::time_t created = 0;
  };

  nlohmann::json describe(const Entry& entry) const;
  void require_free_name(const std::string& name) const;  // REQUIRES: mutex_ is held
  void require_adapter(const std::string& name, const std::string& field) const;

  const Entry base_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> adapters_;
};

// The folder or .gguf file of an adapter that a request names: `path`, absolute or relative to
// `allowed`, without symbolic links. Errors: RequestError: 403 if it is not below `allowed`; 400 if
// it is neither.
std::filesystem::path adapter_path_below(const std::filesystem::path& allowed,
                                         const std::string& path);

}  // namespace clora
