#pragma once
#include <cstdint>
#include <string>

namespace burnish::models {

/// The bytes of the files that a run opens of a model on a hub.
struct HubAmount {
  int64_t num_bytes = 0, num_missing = 0;  ///< the latter are not on this machine
};

/// Counts them. Small files that say which those are get fetched. Throws a data Error when the hub refuses the model, or may not be asked.
HubAmount hub_amount(const std::string& id);

}  // namespace burnish::models
