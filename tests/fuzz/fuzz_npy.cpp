// NumPy's .npy files.
#include "runtime/files/npy.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"
#include "tools/clc/call/npy.hpp"

namespace clora::fuzz {

void read_npy_file(std::string_view input) {
  attempt([&] {
    const HostArray array = parse_npy(std::as_bytes(std::span(input)), "x.npy");
    use(array.text());
    use(array.bytes);
    for (std::int64_t i = 0; i < array.elements(); i += 1 + array.elements() / 16)
      use(array.value_text(i));
  });
}

std::vector<std::string> npy_seeds() {
  const std::vector<std::int64_t> matrix{2, 3};
  const std::string version_2 = "{'descr':'|u1','fortran_order':True,'shape':(4,),}\n";
  return {npy_head("<f4", matrix) + std::string(24, 'x'), npy_head("|b1", {}) + "x",
          npy_head("<i8", std::vector<std::int64_t>{1, 1, 2}) + std::string(16, '\xff'),
          std::string("\x93NUMPY\x02\x00\x33\x00\x00\x00", 12) + version_2 + "abcd"};
}

}  // namespace clora::fuzz
