// The endpoints of an ApiServer. Handlers run on the connections' threads.
#pragma once

#include <atomic>

#include "clora/serving/http_server.hpp"
#include "tools/clora/serve/api_server.hpp"
#include "tools/clora/serve/request_record.hpp"

namespace clora {

// The record of the request that this thread answers.
RequestRecord& current_record();

// Adds the endpoints. `parts` is null while the model is loaded, and must outlive the server.
void add_routes(HttpServer& server, const std::atomic<const ApiParts*>& parts);

}  // namespace clora
