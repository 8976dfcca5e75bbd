#pragma once
#include "models/blocks/mmdit.h"
#include "models/families/flux/config.h"

namespace burnish::models::flux {

/// The block of two streams, with FLUX.1's names. Behind its other inputs it takes mmdit::Further.
class DoubleBlock : public mmdit::DoubleBlock {
 public:
  DoubleBlock(const Config& c, const at::TensorOptions& options);
};

/// The block of one stream, with FLUX.1's names.
class SingleBlock : public mmdit::SingleBlock {
 public:
  SingleBlock(const Config& c, const at::TensorOptions& options);
};

}  // namespace burnish::models::flux
