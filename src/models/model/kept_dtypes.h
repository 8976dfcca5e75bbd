#pragma once
#include <set>
#include <string>

#include "models/model/components.h"

namespace burnish::models {

/// Returns the parameters of a component, by their paths, that its module makes in fp32 whatever it is to be held in (diffusers'
/// _keep_in_fp32_modules). Files of 16-bit numbers keep them in fp32.
std::set<std::string> kept_in_fp32(const Components& components, const std::string& component);

}  // namespace burnish::models
