#include "model/weights/weight_loader.hpp"

#include <algorithm>
#include <memory>

#include "model/files/dequantise.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

std::size_t stored_bytes(std::span<const WeightView> views) {
  std::size_t bytes = 0;
  for (const WeightView& view : views) bytes += size_bytes(view);
  return bytes;
}

WeightForm form_of(const Context& context, const WeightView& view) {
  return preferred_form(context, view.shape, view.type);
}

bool lies_where_kernels_read(const Context& context, std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % weight_alignment_bytes(context) == 0;
}

// Whether the device reads the weight from the mapped file.
bool stays_in_file(Context& context, const WeightView& view, const WeightForm& form) {
  return context.config().wrap_files && !needs_reordering(view) &&
         lies_where_kernels_read(context, view.bytes) && form.layout == Layout::plain &&
         context.transfers().can_wrap(view.bytes, view.type);
}

// Returns the view's bytes; if its rows are not in Hugging Face's order, fills `ordered` with the
// reordered rows and returns that.
std::span<const std::byte> in_order(const WeightView& view, std::vector<std::byte>& ordered) {
  if (!needs_reordering(view)) return view.bytes;
  ordered = in_hugging_face_order(view);
  return ordered;
}

// The matrices of `views` as one, one after the other: where they lie, if they do so in a file.
WeightView stacked(const std::vector<WeightView>& views) {
  WeightView all = views.front();
  all.shape = {all.shape[0] * static_cast<std::int64_t>(views.size()), all.shape[1]};
  const std::size_t bytes = size_bytes(views.front());
  bool are_adjacent = !all.arranged;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].type != all.type)
      fail(ErrorCode::unsupported,
           "{}: tensors {} and {} have the types {} and {}; those of all experts must be the same",
           views[i].file.string(), all.stored_name, views[i].stored_name, name_of(all.type),
           name_of(views[i].type));
    are_adjacent = are_adjacent && views[i].bytes.data() == all.bytes.data() + i * bytes;
  }
  if (are_adjacent) {
    all.bytes = {all.bytes.data(), views.size() * bytes};
    return all;
  }
  const auto copy = std::make_shared<std::vector<std::byte>>();
  copy->reserve(views.size() * bytes);
  for (const WeightView& view : views) {
    std::vector<std::byte> storage;
    const std::span<const std::byte> each = stored_blocks(view, storage);
    copy->insert(copy->end(), each.begin(), each.end());
  }
  all.bytes = *copy;
  all.mapping = copy;
  all.arranged = nullptr;
  return all;
}

// The memory that the tensors take on the device, without bf16 copies.
std::size_t bytes_to_load(Context& context, std::span<const WeightView> views) {
  std::size_t bytes = 0;
  for (const WeightView& view : views) {
    const WeightForm form = form_of(context, view);
    if (stays_in_file(context, view, form)) continue;
    bytes += bytes_of(form.type, static_cast<std::size_t>(view.shape.elements()));
  }
  return bytes;
}

// The memory that bf16 copies of all weights may take.
std::size_t copy_budget(Context& context, std::span<const WeightView> wanted) {
  const std::size_t free = context.pool().statistics().free_bytes();
  const std::size_t rest = free - std::min(free, bytes_to_load(context, wanted));
  return static_cast<std::size_t>(context.config().weight_copy_share * static_cast<double>(rest));
}

std::size_t row_bytes_of(const WeightView& view) {
  return size_bytes(view) / static_cast<std::size_t>(view.shape[0]);
}

std::span<const std::byte> bytes_of_rows(const WeightView& view, const RowRange& rows) {
  const std::size_t row_bytes = row_bytes_of(view);
  return view.bytes.subspan(static_cast<std::size_t>(rows.begin) * row_bytes,
                            static_cast<std::size_t>(rows.count) * row_bytes);
}

}  // namespace

WeightLoader::WeightLoader(Context& context, const WeightFiles& files,
                           std::span<const WeightView> wanted, const LoadProgress& progress)
    : context_(context),
      files_(files),
      progress_(progress),
      wanted_(stored_bytes(wanted)),
      copies_(context, copy_budget(context, wanted)) {
  report(0);
}

Weight WeightLoader::matrix(const std::string& name, const Shape& shape) {
  const WeightView view = files_.get(name, shape);
  return matrix(view, form_of(context_, view));
}

Weight WeightLoader::lookup_table(const std::string& name, const Shape& shape) {
  const WeightView view = files_.get(name, shape);
  WeightForm form = form_of(context_, view);
  form.bf16_copy = false;
  return matrix(view, form);
}

Weight WeightLoader::stack(const std::vector<std::string>& names, const Shape& each) {
  std::vector<WeightView> views;
  for (const std::string& name : names) views.push_back(files_.get(name, each));
  Weight weight = matrix(stacked(views), form_of(context_, views.front()));
  if (weight.is_split())
    fail(ErrorCode::out_of_memory,
         "{}: the {} matrices of experts such as {} need {} MiB in one allocation, the largest on "
         "'{}' is {} MiB; use a model with lower-bit quantisation, or another device",
         views.front().file.string(), views.size(), views.front().stored_name,
         weight.bytes() >> 20U, context_.device().name,
         context_.device().max_allocation_bytes >> 20U);
  return weight;
}

Tensor WeightLoader::vector(const std::string& name, std::int64_t elements, float scale) {
  const WeightView view = files_.get(name, {elements});
  std::vector<std::byte> ordered;
  std::vector<float> values =
      to_float(view.type, in_order(view, ordered), static_cast<std::size_t>(elements));
  for (float& value : values) value = model_value(view, value) * scale;
  Tensor tensor = context_.upload<float>({elements}, DType::f32, values, MemoryTag::weights);
  count(tensor.bytes(), size_bytes(view));
  return tensor;
}

Tensor WeightLoader::taps(const std::string& name, std::int64_t channels, std::int64_t width) {
  const WeightView view = files_.get(name, {channels, 1, width});
  const auto C = static_cast<std::size_t>(channels), W = static_cast<std::size_t>(width);
  std::vector<std::byte> ordered;
  const std::vector<float> stored = to_float(view.type, in_order(view, ordered), C * W);
  std::vector<float> values(stored.size());
  for (std::size_t c = 0; c < C; ++c) {
    for (std::size_t lag = 0; lag < W; ++lag) values[lag * C + c] = stored[c * W + W - 1 - lag];
  }
  const Tensor tensor =
      context_.upload<float>({width, channels}, DType::f32, values, MemoryTag::weights);
  count(tensor.bytes(), size_bytes(view));
  return tensor;
}

std::vector<float> WeightLoader::floats(const std::string& name, const Shape& shape) {
  const WeightView view = files_.get(name, shape);
  count(4 * static_cast<std::size_t>(shape.elements()), size_bytes(view));
  std::vector<std::byte> storage;
  const std::span<const std::byte> bytes = stored_blocks(view, storage);
  return to_float(view.type, bytes, static_cast<std::size_t>(shape.elements()));
}

Weight WeightLoader::matrix(const WeightView& view, const WeightForm& form) {
  const std::size_t row_bytes = bytes_of(form.type, static_cast<std::size_t>(view.shape[1]));
  const bool stays = stays_in_file(context_, view, form);
  std::vector<Tensor> parts;
  for (const RowRange& rows : part_rows(context_.device(), view.name, view.shape[0], row_bytes)) {
    Tensor part = stays ? wrap(view, rows) : Tensor();
    if (part.empty()) part = copy(view, rows, form);
    parts.push_back(part);
  }
  Weight weight(std::move(parts));
  if (form.bf16_copy) weight = copies_.with_copy(weight);
  count(weight.bytes(), size_bytes(view));
  return weight;
}

// Empty if the driver refuses the memory.
Tensor WeightLoader::wrap(const WeightView& view, const RowRange& rows) {
  return context_.transfers().wrap(bytes_of_rows(view, rows), {rows.count, view.shape[1]},
                                   view.type, view.mapping);
}

Tensor WeightLoader::copy(const WeightView& view, const RowRange& rows, const WeightForm& form) {
  const Tensor tensor =
      context_.allocate({rows.count, view.shape[1]}, form.type, MemoryTag::weights);
  if (form.layout == Layout::packed) return in_packed_panels(tensor, view, rows.begin);
  if (!needs_reordering(view)) {
    context_.write(tensor, bytes_of_rows(view, rows));
    return tensor;
  }
  const std::size_t row_bytes = row_bytes_of(view);
  context_.transfers().stream(
      tensor, row_bytes, [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
        const auto row = static_cast<std::int64_t>(offset_bytes / row_bytes);
        copy_in_hugging_face_order(chunk, view, rows.begin + row);
      });
  return tensor;
}

// Fills `tensor` with rows of the view, from `first` on, in packed panels and returns it.
Tensor WeightLoader::in_packed_panels(const Tensor& tensor, const WeightView& view,
                                      std::int64_t first) {
  const std::size_t row_bytes = row_bytes_of(view);
  const std::size_t packed_bytes = tensor.bytes() / static_cast<std::size_t>(tensor.shape()[0]);
  const bool reorders = needs_reordering(view);
  std::vector<std::byte> ordered;
  context_.transfers().stream(
      tensor, static_cast<std::size_t>(kPackedRows) * packed_bytes,
      [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
        const std::size_t row = static_cast<std::size_t>(first) + offset_bytes / packed_bytes;
        const std::size_t bytes = chunk.size() / packed_bytes * row_bytes;
        std::span<const std::byte> rows;
        if (reorders) {
          ordered.resize(bytes);
          copy_in_hugging_face_order(ordered, view, static_cast<std::int64_t>(row));
          rows = ordered;
        } else {
          rows = view.bytes.subspan(row * row_bytes, bytes);
        }
        pack_panels(chunk, rows, view.shape[1], view.type, tensor.type());
      });
  return tensor.in_layout(Layout::packed);
}

void WeightLoader::count(std::size_t on_device, std::size_t stored) {
  bytes_ += on_device;
  read_ += stored;
  report(std::min(1.0, static_cast<double>(read_) / static_cast<double>(wanted_)));
}

void WeightLoader::report(double fraction) const {
  if (!progress_ || progress_(fraction)) return;
  fail(ErrorCode::cancelled, "model: loading was cancelled at {:.0f} %", 100 * fraction);
}

void require_free_memory(Context& context, std::span<const WeightView> views) {
  const std::size_t wanted = bytes_to_load(context, views);
  const MemoryStatistics pool = context.pool().statistics();
  const std::size_t free = pool.free_bytes();
  if (wanted <= free) return;
  fail(ErrorCode::out_of_memory,
       "model: the weights need {} MiB, '{}' has {} MiB free of {} MiB; use a smaller model, one "
       "with lower-bit quantisation, or another device",
       wanted >> 20U, context.device().name, free >> 20U, pool.limit_bytes >> 20U);
}

}  // namespace clora
