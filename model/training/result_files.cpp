#include "model/training/result_files.hpp"

#include "clora/lora/peft_files.hpp"

namespace clora {

void save_result(const Adapter& adapter, AdapterFormat format, const ModelConfig& config,
                 const std::filesystem::path& folder) {
  const AdapterValues values = values_of(adapter);
  write_peft_adapter(values, folder);
  if (format == AdapterFormat::gguf) write_adapter(values, format, config, folder / kGgufResult);
  if (format == AdapterFormat::mlx) write_adapter(values, format, config, folder / kMlxResult);
}

}  // namespace clora
