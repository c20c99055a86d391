#include "runtime/commands/captured_launch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <tuple>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"
#include "runtime/files/npy.hpp"
#include "runtime/programs/kernel_text.hpp"
#include "runtime/programs/program_report.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;
using Path = std::filesystem::path;

// The memory range of an argument.
struct Extent {
  std::size_t position = 0;  // index of the argument
  cl_mem mem = nullptr;
  std::size_t begin = 0, end = 0;
};

const Tensor* tensor_in(const Argument& argument) {
  const auto* tensor = std::get_if<Tensor>(&argument);
  return tensor == nullptr || tensor->empty() || tensor->bytes() == 0 ? nullptr : tensor;
}

Extent extent_of(std::size_t position, const Tensor& tensor) {
  const std::size_t begin = tensor.storage()->origin + tensor.offset_bytes();
  return {position, tensor.storage()->mem, begin, begin + tensor.bytes()};
}

// Sorted by address; of two ranges with the same start, the longer comes first.
std::vector<Extent> extents_of(const std::vector<Argument>& arguments) {
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (const Tensor* tensor = tensor_in(arguments[i])) extents.push_back(extent_of(i, *tensor));
  }
  std::ranges::stable_sort(extents, [](const Extent& a, const Extent& b) {
    return std::tuple(a.mem, a.begin, b.end) < std::tuple(b.mem, b.begin, a.end);
  });
  return extents;
}

// Removes the first of `extents` and all that overlap it, directly or through others, and returns
// their common memory. The first argument represents the memory, even if it covers only the start
// of it.
CapturedMemory take_overlapping(std::span<const Extent>& extents,
                                const std::vector<Argument>& arguments) {
  const Extent first = extents.front();
  std::size_t end = first.end, count = 1;
  while (count < extents.size() && extents[count].mem == first.mem && extents[count].begin < end) {
    end = std::max(end, extents[count++].end);
  }
  extents = extents.subspan(count);
  const std::shared_ptr<Storage>& storage = std::get<Tensor>(arguments[first.position]).storage();
  auto all = std::make_shared<Storage>(Storage{.buffer = storage->buffer,
                                               .mem = storage->mem,
                                               .origin = first.begin,
                                               .bytes = end - first.begin,
                                               .name = {}});
  const auto bytes = static_cast<std::int64_t>(all->bytes);
  return {Tensor(std::move(all), {bytes}, DType::u8), first.position, {}, {}};
}

struct StoredType {
  std::string_view name, npy;
};
StoredType stored_type(DType type) {
  switch (type) {
    case DType::f32:
      return {"f32", "<f4"};
    case DType::f16:
      return {"f16", "<f2"};
    case DType::bf16:
      return {"bf16", "<u2"};
    case DType::i32:
      return {"i32", "<i4"};
    case DType::u32:
      return {"u32", "<u4"};
    default:
      return {"u8", "|u1"};
  }
}

// The element type and shape of an array in its files.
struct ArrayView {
  StoredType type;
  std::vector<std::int64_t> shape;
};
ArrayView view_of(const Tensor& tensor, std::size_t bytes) {
  const StoredType type = stored_type(tensor.type());
  if (is_quantised(tensor.type()) || tensor.type() == DType::u8 || bytes != tensor.bytes()) {
    return {stored_type(DType::u8), {static_cast<std::int64_t>(bytes)}};
  }
  ArrayView view{type, {}};
  for (int d = 0; d < tensor.shape().rank(); ++d) view.shape.push_back(tensor.shape()[d]);
  return view;
}

ordered_json json_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<int>(each));
  return {{"kind", "value"}, {"bytes", text}};
}

template <class T>
ordered_json json_of_number(T value, const char* type) {
  return {{"kind", "value"}, {"type", type}, {"value", value}};
}

ordered_json json_of(float value) {
  if (!std::isfinite(value)) return json_of(std::as_bytes(std::span(&value, 1)));
  return json_of_number(value, "float");
}

// The JSON of an argument that is not memory.
struct ValueJson {
  ordered_json operator()(const Tensor&) const { return {{"kind", "null"}}; }
  ordered_json operator()(const LocalMemory& local) const {
    return {{"kind", "local"}, {"bytes", local.bytes}};
  }
  ordered_json operator()(const ValueBytes& value) const { return json_of(value.bytes); }
  ordered_json operator()(float value) const { return json_of(value); }
  ordered_json operator()(std::int32_t value) const { return json_of_number(value, "int"); }
  ordered_json operator()(std::uint32_t value) const { return json_of_number(value, "uint"); }
  ordered_json operator()(std::int64_t value) const { return json_of_number(value, "long"); }
  ordered_json operator()(std::uint64_t value) const { return json_of_number(value, "ulong"); }
};

// The names of the arguments; empty if the driver does not report them.
std::vector<std::string> argument_names(const Context& context, const ProgramSource& source,
                                        const KernelCommand& command) {
  std::vector<std::string> names(command.arguments.size());
  const ProgramReport report = report_on_program(context, source.text, source.file, source.options,
                                                 KernelWarnings::suppressed);
  for (const KernelReport& kernel : report.kernels) {
    if (kernel.name != command.launch.kernel.function) continue;
    for (std::size_t i = 0; i < std::min(names.size(), kernel.arguments.size()); ++i) {
      names[i] = kernel.arguments[i].name;
    }
  }
  return names;
}

void write_array(const Path& path, const ArrayView& view, std::span<const std::byte> bytes) {
  const std::string head = npy_head(view.type.npy, view.shape);
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(head)), bytes};
  write_file_atomically(path, parts);
}

// Writes the files of one launch into a folder.
class FolderWriter {
 public:
  FolderWriter(const KernelCommand& command, std::vector<std::string> names, Path folder)
      : command_(command), names_(std::move(names)), folder_(std::move(folder)) {}

  ordered_json array(std::size_t i, const CapturedMemory& memory) const {
    const auto& tensor = std::get<Tensor>(command_.arguments[i]);
    const ArrayView view = view_of(tensor, memory.before.size());
    const std::string stem =
        names_[i].empty() ? std::to_string(i) : fmt::format("{}-{}", i, names_[i]);
    ordered_json json{{"kind", "array"},
                      {"type", view.type.name},
                      {"shape", view.shape},
                      {"tensor", tensor.text()},
                      {"file", stem + ".npy"}};
    write_array(folder_ / (stem + ".npy"), view, memory.before);
    if (memory.after != memory.before) {
      json["expected"] = stem + ".expected.npy";
      write_array(folder_ / (stem + ".expected.npy"), view, memory.after);
    }
    return json;
  }

  ordered_json same(std::size_t i, const CapturedMemory& memory) const {
    const auto& tensor = std::get<Tensor>(command_.arguments[i]);
    const ArrayView view = view_of(tensor, tensor.bytes());
    return {{"kind", "same"},
            {"of", memory.array},
            {"offset_bytes", extent_of(i, tensor).begin - extent_of(0, memory.bytes).begin},
            {"type", view.type.name},
            {"shape", view.shape},
            {"tensor", tensor.text()}};
  }

  ordered_json argument(std::size_t i, const std::vector<CapturedMemory>& all) const {
    const Argument& argument = command_.arguments[i];
    if (const Tensor* tensor = tensor_in(argument)) {
      const CapturedMemory& memory = memory_with(extent_of(i, *tensor), all);
      return memory.array == i ? array(i, memory) : same(i, memory);
    }
    return std::visit(ValueJson{}, argument);
  }

  ordered_json arguments(const std::vector<CapturedMemory>& all) const {
    ordered_json list = ordered_json::array();
    for (std::size_t i = 0; i < command_.arguments.size(); ++i) {
      ordered_json json = argument(i, all);
      if (!names_[i].empty()) json["name"] = names_[i];
      list.push_back(std::move(json));
    }
    return list;
  }

 private:
  static const CapturedMemory& memory_with(const Extent& extent,
                                           const std::vector<CapturedMemory>& all) {
    return *std::ranges::find_if(all, [&](const CapturedMemory& memory) {
      const Extent full = extent_of(0, memory.bytes);
      return full.mem == extent.mem && full.begin <= extent.begin && extent.end <= full.end;
    });
  }

  const KernelCommand& command_;
  std::vector<std::string> names_;
  Path folder_;
};

}  // namespace

CapturedLaunch::CapturedLaunch(Context& context, const KernelCommand& command)
    : context_(context), command_(command) {
  const std::vector<Extent> extents = extents_of(command.arguments);
  for (std::span<const Extent> left(extents); !left.empty();) {
    memory_.push_back(take_overlapping(left, command.arguments));
  }
  for (CapturedMemory& memory : memory_) memory.before = context_.read<std::byte>(memory.bytes);
}

void CapturedLaunch::read_results() {
  for (CapturedMemory& memory : memory_) memory.after = context_.read<std::byte>(memory.bytes);
}

void CapturedLaunch::write(const CaptureRequest& request) const {
  const std::optional<ProgramSource> source = context_.programs().source_of(command_.launch.kernel);
  if (!source) {
    fail(ErrorCode::unsupported,
         "{} was not created by Context::kernel(), so its source is not available",
         command_.launch.kernel.function);
  }
  const AtomicFolder folder(request.folder, "call.json");
  const FolderWriter writer(command_, argument_names(context_, *source, command_),
                            folder.partial());
  const Device& device = context_.device();
  const ordered_json call{
      {"format", "clora-capture"},
      {"version", 1},
      {"op", request.op},
      {"launch", request.launch},
      {"device", {{"name", device.name}, {"platform", device.platform}, {"driver", device.driver}}},
      {"file", source->file},
      {"kernel", command_.launch.kernel.function},
      {"options", source->options},
      {"global", command_.launch.grid.global},
      {"local", command_.launch.grid.local},
      {"arguments", writer.arguments(memory_)}};
  write_file_atomically(folder.partial() / "kernel.cl", stand_alone_text(source->text));
  write_file_atomically(folder.partial() / "call.json", json_text(call, 2) + '\n');
  folder.commit();
}

}  // namespace clora
