#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "memory/host_store.h"
#include "nn/block.h"

// Inside of paging: what is known of the weights of a block that is not always on its device.
namespace burnish::memory {

/// As many bytes as a tensor takes in its place, aligned as allocators of GPUs align it.
int64_t aligned(int64_t num_bytes);

/// All bytes of a storage.
at::Tensor bytes_of(const c10::Storage& storage, const at::TensorOptions& options);

struct PageMemory;

/// The weights of a block that one of several processes owns, side by side.
struct OwnerRow {
  int64_t owner = 0;
  int64_t num_bytes = 0;
  int64_t offset = 0;            ///< in a place; of another's
  at::Tensor own = {};           ///< where they are this process's: on the device,
  at::Tensor in_host = {};       ///< and once more where they can travel from, unless that is the device
  at::Tensor travelling = {};    ///< while it comes, or is sent
  HostStore::Arrival come = {};  ///< when it has

  bool is_mine() const { return own.defined(); }
};

/// A block's weights.
struct Page {
  struct Weight {
    c10::Storage storage;  ///< points into a place, or nowhere
    at::Tensor waiting;    ///< its bytes, in host memory or in a file; undefined for the meta device where they would be in a file
    bool in_file;
    int64_t offset;                     ///< in a place
    int64_t share = 0;                  ///< bytes that each of several processes keeps, the last of them fewer
    int64_t my_offset = 0;              ///< of them in what the page keeps
    std::optional<int64_t> owner = {};  ///< of several processes, the one that has all of it
    bool stays = false;                 ///< whether that is this process, on whose device it is kept
  };
  nn::Block* block;
  std::vector<Weight> weights = {};
  int64_t num_bytes = 0;
  PageMemory* place = nullptr;
  bool changed = false;                           ///< since it came
  HostStore::Arrival arrival = {}, reading = {};  ///< of what comes from host memory, and of what comes from a file
  struct Parts {
    at::Tensor mine = {};  ///< what this process keeps
    int64_t num_my_bytes = 0;
    at::Tensor all = {};           ///< of all processes, while it comes
    HostStore::Arrival come = {};  ///< when it has
  };
  Parts parts = {};                 ///< of all weights that several processes divide evenly
  std::vector<OwnerRow> rows = {};  ///< of each process that owns weights, in their order
  bool is_old = false;              ///< whether owners wrote to them since they came

  /// Its bytes in its place on the device and where they wait: those in files, or those in host memory.
  HostStore::Copies copies(bool in_file) const;
  /// Null where the tensor is none of its weights.
  const Weight* find(const at::Tensor& tensor) const {
    auto found = std::ranges::find_if(weights, [&](const auto& w) { return w.storage.is_alias_of(tensor.storage()); });
    return found == weights.end() ? nullptr : &*found;
  }
};

/// Memory of the device for a page.
struct PageMemory {
  at::Tensor bytes;
  Page* page = nullptr;
};

}  // namespace burnish::memory
