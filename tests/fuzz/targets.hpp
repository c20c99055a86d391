// The functions of all targets. Each is defined in the file of its name, for example fuzz_gguf.cpp;
// those of adapters of other programs in fuzz_other_adapters.cpp.
// See target.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora::fuzz {

// adapter_config.json, NUL, adapter_model.safetensors.
void read_adapter(std::string_view input);
std::vector<std::string> adapter_seeds();

// call.json of a captured launch, NUL, its array 0-x.npy.
void read_capture(std::string_view input);
std::vector<std::string> capture_seeds();

// The Jinja text of a model's files.
void read_chat_template(std::string_view input);
std::vector<std::string> chat_template_seeds();

// A grammar in GBNF.
void read_gbnf(std::string_view input);
std::vector<std::string> gbnf_seeds();

void read_generation_config(std::string_view input);
std::vector<std::string> generation_config_seeds();

void read_gguf(std::string_view input);
std::vector<std::string> gguf_seeds();

// An adapter in a GGUF file.
void read_gguf_adapter_file(std::string_view input);
std::vector<std::string> gguf_adapter_seeds();

// Four bytes with the size of the first of two files, that file, the second file.
void read_gguf_parts(std::string_view input);
std::vector<std::string> gguf_parts_seeds();

// The head of an HTTP request and its body, or the body alone.
void read_http_request(std::string_view input);
std::vector<std::string> http_request_seeds();

// A JSON Schema that a reply must match.
void read_json_schema(std::string_view input);
std::vector<std::string> json_schema_seeds();

// adapter_config.json, NUL, adapters.safetensors of mlx-lm.
void read_mlx_adapter_files(std::string_view input);
std::vector<std::string> mlx_adapter_seeds();

// config.json.
void read_model_config(std::string_view input);
std::vector<std::string> model_config_seeds();

void read_npy_file(std::string_view input);
std::vector<std::string> npy_seeds();

// A byte that selects a pre-tokeniser of GGUF files, and a text.
void read_pre_tokenizer(std::string_view input);
std::vector<std::string> pre_tokenizer_seeds();

// quantization_config, NUL, model.safetensors.
void read_quantised_layers(std::string_view input);
std::vector<std::string> quantised_layers_seeds();

// A data set in JSON lines.
void read_records(std::string_view input);
std::vector<std::string> records_seeds();

// run.toml.
void read_run_config(std::string_view input);
std::vector<std::string> run_config_seeds();

void read_safetensors(std::string_view input);
std::vector<std::string> safetensors_seeds();

// The file of Engine::save_prefix().
void read_saved_prefix(std::string_view input);
std::vector<std::string> saved_prefix_seeds();

// tokenizer.json, NUL, tokenizer_config.json.
void read_tokenizer(std::string_view input);
std::vector<std::string> tokenizer_seeds();

}  // namespace clora::fuzz
