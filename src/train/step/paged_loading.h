#pragma once
#include "memory/paging.h"
#include "models/family.h"
#include "train/step/settings.h"

namespace burnish::train {

/// How many blocks of a component are not on the device while it runs.
struct PagedBlocks {
  int64_t waiting = 0;  ///< in host memory or in their file; kAllBlocks for as many as there are
  int64_t on_disk = 0;  ///< of them, in their file
};

/// Loads a part of a component whose weights wait in host memory or in its files for some of its blocks, none of them longer on the device
/// than it takes to get there. Those blocks have the pager's runner then. What of a block is not held as its file has it, because a LoRA
/// was merged into it say, waits in host memory. A config Error for more blocks than there are.
std::shared_ptr<memory::Pager> load_paged(models::Model& model, const std::string& part, const PagedBlocks& paged,
                                          std::shared_ptr<memory::HostStore> host, c10::Device device);

}  // namespace burnish::train
