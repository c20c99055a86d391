#include "runtime/memory/adopted_memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

template <class T>
T info_of(cl_mem mem, cl_mem_info what) {
  T value{};
  check_opencl(clGetMemObjectInfo(mem, what, sizeof value, &value, nullptr),
               "adopt: clGetMemObjectInfo");
  return value;
}

}  // namespace

struct AdoptedMemory::Root {
  explicit Root(cl_mem mem) : buffer(Buffer::adopt(mem)) {}
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() {
    buffer = Buffer();  // first the sub-buffers created here, which are younger
    while (!given.empty()) given.pop_back();
  }

  void keep(cl_mem sub_buffer) {
    const auto is_it = [&](const OwnedMem& mem) { return mem.get() == sub_buffer; };
    if (std::ranges::any_of(given, is_it)) return;
    check_opencl(clRetainMemObject(sub_buffer), "adopt: clRetainMemObject");
    given.emplace_back(sub_buffer);
  }

  std::vector<OwnedMem> given;  // callers' sub-buffers of the root buffer
  Buffer buffer;
};

std::shared_ptr<AdoptedMemory::Root> AdoptedMemory::root_of(cl_mem mem) {
  std::weak_ptr<Root>& known = roots_[mem];
  std::shared_ptr<Root> root = known.lock();
  if (root == nullptr) {
    std::erase_if(roots_,
                  [&](const auto& entry) { return entry.first != mem && entry.second.expired(); });
    known = root = std::make_shared<Root>(mem);
  }
  return root;
}

std::shared_ptr<Storage> AdoptedMemory::adopt(cl_mem mem, std::size_t offset_bytes,
                                              std::size_t bytes) {
  require(mem != nullptr, "adopt: a buffer is required, got a null cl_mem");
  require(info_of<cl_mem_object_type>(mem, CL_MEM_TYPE) == CL_MEM_OBJECT_BUFFER,
          "adopt: the cl_mem must be a buffer, not an image or a pipe");
  require(info_of<cl_context>(mem, CL_MEM_CONTEXT) == context_,
          "adopt: the buffer must belong to the Context's own cl_context; create the Context from "
          "an AdoptedQueue of the buffer's cl_context");
  const auto size = info_of<std::size_t>(mem, CL_MEM_SIZE);
  require(offset_bytes <= size && bytes <= size - offset_bytes,
          "adopt: {} bytes at offset {} must fit into the buffer of {} bytes", bytes, offset_bytes,
          size);
  const auto parent = info_of<cl_mem>(mem, CL_MEM_ASSOCIATED_MEMOBJECT);
  // A sub-buffer of a sub-buffer is not allowed, so arguments are sub-buffers of the root.
  const std::size_t origin =
      offset_bytes + (parent == nullptr ? 0 : info_of<std::size_t>(mem, CL_MEM_OFFSET));
  require(origin % base_alignment_bytes_ == 0,
          "adopt: the view must start at a multiple of {} bytes within its root buffer, got {}",
          base_alignment_bytes_, origin);
  const std::shared_ptr<Root> root = root_of(parent == nullptr ? mem : parent);
  if (parent != nullptr) root->keep(mem);

  auto storage = std::make_shared<Storage>();
  storage->buffer = std::shared_ptr<const Buffer>(root, &root->buffer);
  storage->mem = root->buffer.handle();
  storage->origin = origin;
  storage->bytes = bytes;
  return storage;
}

}  // namespace clora
