#pragma once
#include "io/safetensors.h"

namespace burnish::convert {

/// Takes out sums over what was in the file that metadata was read from: they are none over what is written.
inline void drop_checksums(io::Metadata& metadata) {
  for (const char* key : {"sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"}) metadata.erase(key);
}

}  // namespace burnish::convert
