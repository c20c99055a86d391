#ifdef CLORA_BENCH_ONEDNN
#include <dnnl.h>

#include "bench/support/host_products.hpp"
#include "runtime/fail.hpp"

namespace clora::bench {

void onednn_product(const HostProductSizes& sizes, float* y, const float* x, const float* w) {
  const dnnl_status_t status =
      dnnl_sgemm('N', 'T', sizes.m, sizes.n, sizes.k, 1, x, sizes.k, w, sizes.k, 0, y, sizes.n);
  if (status != dnnl_success) {
    fail(ErrorCode::device, "oneDNN: sgemm gave status {}", static_cast<int>(status));
  }
}

}  // namespace clora::bench
#endif
