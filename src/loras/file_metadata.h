#pragma once
#include "io/safetensors.h"
#include "models/model/names.h"

namespace burnish::loras {

/// Holds what is said of the adapters of a file as a whole; numbers that differ between layers are joined by "/".
struct AdapterTotals {
  std::string type;  ///< "lora", "dora", "loha", "lokr", ...
  std::string ranks, alphas;
};

/// Returns what Stability-AI/ModelSpec (1.0.1) and kohya-ss/sd-scripts have a file say of the model that is in it: what programs that list
/// models sort them by.
io::Metadata model_metadata(const models::Names& names);
/// Returns the same of a file with adapters for that model, and what is said of the adapters.
io::Metadata adapter_metadata(const models::Names& names, const AdapterTotals& totals);

/// Has entries that are there be true of these adapters; entries of other programs that count something else go.
void restate(io::Metadata& metadata, const AdapterTotals& totals);

/// Takes out sums over what was in the file that metadata was read from: they are none over what is written. Tells whether there were any.
bool drop_sums(io::Metadata& metadata);

/// Adds the sums by which programs know a file whatever its header says: ModelSpec's hash_sha256 and sd-scripts' sshs_model_hash.
void add_sums(io::Metadata& metadata, const io::NamedTensors& tensors);
/// Has sums that are there be those over these tensors.
void renew_sums(io::Metadata& metadata, const io::NamedTensors& tensors);

}  // namespace burnish::loras
