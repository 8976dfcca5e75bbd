#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/profile.h"
#include "memory/recomputable_part.h"

// Inside of a dry run: what is written down of memory, and by whom it is held.
namespace burnish::memory {

/// Is told of each block of memory that is taken or freed, by its number, while it is hung on the books.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void taken(size_t number, int64_t num_bytes) = 0;
  virtual void freed(size_t number) = 0;
};

/// Names what goes on.
struct Places {
  static constexpr std::string_view kBackward = "backward";

  std::set<std::string> names;
  std::string_view now;
  /// Nodes of autograd are numbered in the order in which forward makes them: the last number of a watched block, its first, and the place
  /// that its backward is.
  std::map<uint64_t, std::pair<uint64_t, std::string_view>> nodes;
  std::string_view last_backward = kBackward;

  std::string_view named(const std::string& name) { return *names.insert(name).first; }
  /// Returns in backward the block that made the node which is at work; a block that is run again has nodes that came later.
  std::string_view current();
};

/// Holds what is written down. Blocks outlive the dry run that they were taken in, and keep it.
struct Books {
  std::mutex mutex;  // operators allocate from threads of their own
  Allocations allocations;
  int64_t now = 0;
  Places places;
  bool traces = false, records = false;
  std::vector<RecomputablePart> parts;
  Listener* listener = nullptr;
  /// While it is set, what is taken has been taken before, in this order: it gets these numbers again, and nothing is written down.
  std::optional<size_t> again;
  std::vector<size_t>* put_off = nullptr;  ///< while it is set, what would be freed is noted there, to be freed later

  /// Returns the number of a block that is taken now: at `place`, or where that is empty at the one that is known of nodes at work.
  size_t take(int64_t num_bytes, std::string_view place = {});
  void free(size_t number);
};

/// Makes what a storage on the meta device holds in place of numbers: a block of memory, which is freed with it.
c10::DataPtr data_of(std::shared_ptr<Books> books, size_t number);
/// Returns the number of the block that a storage holds; nothing for one from elsewhere.
std::optional<size_t> number_in(const c10::Storage& storage, const Books& books);

}  // namespace burnish::memory
