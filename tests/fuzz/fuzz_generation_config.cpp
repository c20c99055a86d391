// generation_config.json next to a model and its tokenizer.
#include "clora/model/text/tokenizer_files.hpp"
#include "model/weights/weight_sources.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/safetensors_bytes.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/fuzz/tiny_files.hpp"

namespace clora::fuzz {
namespace {

void write_model(const InputFolder& folder) {
  folder.write("config.json", model_config_seeds().front());
  folder.write("model.safetensors", safetensors_bytes("{}"));
  folder.write("tokenizer.json", tiny_tokenizer_json());
}

}  // namespace

void read_generation_config(std::string_view input) {
  static const InputFolder folder;
  static const bool written = (write_model(folder), true);
  (void)written;
  folder.write("generation_config.json", input);
  attempt([] { (void)open_weight_sources(folder.path()); });
  attempt([] { (void)load_tokenizer(folder.path()).end_of_generation(); });
}

std::vector<std::string> generation_config_seeds() {
  return {R"({"bos_token_id":1,"eos_token_id":2,"transformers_version":"4.40.0"})",
          R"({"eos_token_id":[2,5],"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":20})",
          R"({"eos_token_id":[-1,4294967298,1e3,"2",null],"pad_token_id":null})"};
}

}  // namespace clora::fuzz
