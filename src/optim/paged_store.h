#pragma once
#include "memory/paging.h"
#include "optim/parameter.h"

namespace burnish::optim {

/// Has parameters whose numbers wait in host memory with a block brought to the device when they are read or written, and written back
/// after; what is saved of them and loaded into them is their host memory. To be called after `complete`. Of bf16 with a remainder, the
/// remainder stays on the device.
void page(ParameterList& parameters, const std::shared_ptr<memory::Pager>& pager);

}  // namespace burnish::optim
