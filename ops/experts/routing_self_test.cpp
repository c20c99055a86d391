#include "ops/experts/routing_self_test.hpp"

namespace clora {

Routing self_test_routing(SelfTest& test, const RoutingSize& size) {
  Batch& batch = test.batch();
  Routing routing = make_routing(size, [&](Shape shape, DType type, std::string_view name) {
    return batch.temporary(shape, type, name);
  });
  record_router(batch, routing, test.input({size.rows, size.experts}), RouterWeights::normalised);
  return routing;
}

}  // namespace clora
