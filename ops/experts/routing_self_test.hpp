// Rows routed to experts, for the self-tests of products over experts.
#pragma once

#include "clora/ops/experts/router.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

// Temporaries of the test's batch, from the next input of the test as logits.
Routing self_test_routing(SelfTest& test, const RoutingSize& size);

}  // namespace clora
