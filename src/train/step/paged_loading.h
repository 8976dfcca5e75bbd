#pragma once
#include "memory/paging.h"
#include "models/registry.h"
#include "train/step/settings.h"

namespace burnish::train {

/// The numbers of a component's blocks that are not on the device while it runs.
struct PagedBlocks {
  int64_t waiting = 0;  ///< blocks in host memory or in their file; kAllBlocks for all that there are
  int64_t on_disk = 0;  ///< the blocks among them that are in their file
};

/// Loads a part of a component, of which some blocks' weights wait in host memory or in its files; none of them is on the device longer
/// than it takes to get there. These blocks have the pager's runner then. A weight that is not held as its file has it, because a LoRA was
/// merged into it say, waits in host memory. Throws a config Error for more blocks than there are.
std::shared_ptr<memory::Pager> load_paged(models::Model& model, const std::string& part, const PagedBlocks& paged,
                                          std::shared_ptr<memory::HostStore> host, c10::Device device);

}  // namespace burnish::train
