// The records of clora.h. For the files of model/c_api/ only.
#pragma once

#include <string_view>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/data/records.hpp"

namespace clora::c_api {

// Errors: those of require_fits() for any of the records.
void require_fit(const Records& records, const ModelConfig& model, std::string_view who);

}  // namespace clora::c_api
