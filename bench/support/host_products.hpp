// y [M, N] = x [M, K] w [N, K]^T by host libraries, each on as many cores as it chooses. The
// interface uses plain pointers, because the files that define these functions are compiled for the
// build machine's CPU and share no code with others.
#pragma once

#include <cstdint>

namespace clora::bench {

struct HostProductSizes {
  std::int64_t m, n, k;
};
using HostProduct = void (*)(const HostProductSizes& sizes, float* y, const float* x,
                             const float* w);

void eigen_product(const HostProductSizes& sizes, float* y, const float* x, const float* w);
// Only if CLORA_BENCH_ONEDNN is defined.
void onednn_product(const HostProductSizes& sizes, float* y, const float* x, const float* w);

}  // namespace clora::bench
