// The folder of a captured launch, as clc replay reads it.
#include "runtime/files/npy.hpp"
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tools/clc/call/captured_call.hpp"

namespace clora::fuzz {
namespace {

void read_array(const ArraySpec& spec) {
  attempt([&] { use(array_of(spec).text()); });
}

void read_arrays(const CapturedCall& call) {
  for (const CapturedArgument& argument : call.arguments) {
    if (argument.expected) read_array(*argument.expected);
    if (const auto* spec = std::get_if<ArraySpec>(&argument.value)) read_array(*spec);
  }
}

}  // namespace

void read_capture(std::string_view input) {
  static const InputFolder folder;
  const auto parts = parts_of(input, 2);
  folder.write("call.json", parts[0]);
  folder.write("0-x.npy", parts[1]);
  attempt([] { read_arrays(read_captured_call(folder.path())); });
}

std::vector<std::string> capture_seeds() {
  const std::string call =
      R"({"format":"clora-capture","version":1,"op":"test/scale","launch":2,"device":{"name":"d",)"
      R"("platform":"p","driver":"1"},"file":"scale.cl","kernel":"scale","options":"-D GROUP=16",)"
      R"("global":[32,1,1],"local":[16,1,1],"arguments":[{"kind":"array","type":"f32",)"
      R"("shape":[4,8],"tensor":"x","file":"0-x.npy","expected":"0-x.npy","name":"y"},)"
      R"({"kind":"same","of":0,"offset_bytes":64,"type":"f32","shape":[2,8]},{"kind":"null"},)"
      R"({"kind":"local","bytes":64},{"kind":"value","type":"int","value":31},)"
      R"({"kind":"value","bytes":"0000c07f"}]})";
  const std::vector<std::int64_t> shape{4, 8};
  return {joined({call, npy_head("<f4", shape) + std::string(128, 'x')})};
}

}  // namespace clora::fuzz
