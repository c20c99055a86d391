// y [M, N] = x [M, K] w [N, K]^T by libraries on the host, each on all the cores that it takes.
// Plain pointers: the files that define them are compiled for this very CPU and share no code with
// others.
#pragma once

#include <cstdint>

namespace clora::bench {

struct HostProductSizes {
  std::int64_t m, n, k;
};
using HostProduct = void (*)(const HostProductSizes& sizes, float* y, const float* x,
                             const float* w);

void eigen_product(const HostProductSizes& sizes, float* y, const float* x, const float* w);
// Where CLORA_BENCH_ONEDNN is defined.
void onednn_product(const HostProductSizes& sizes, float* y, const float* x, const float* w);

}  // namespace clora::bench
