#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace burnish::kernels {

/// Finds which of several ways to compute one thing takes least time, once for each key, by trying all of them. Safe to use from several
/// threads.
class Fastest {
 public:
  using Key = std::vector<int64_t>;
  /// The time that a way takes, in any unit; nothing for one that cannot be gone.
  using Trial = std::function<std::optional<double>(size_t way)>;

  /// Makes an empty table. Keys beyond `most_keys` are not tried.
  explicit Fastest(size_t most_keys) : most_keys_(most_keys) {}

  /// The number of the fastest of `num_ways` ways for `key`; nothing where none can be gone, or there is no room for the key.
  std::optional<size_t> of(const Key& key, size_t num_ways, const Trial& trial);
  bool knows(const Key& key) const;

 private:
  size_t most_keys_;
  mutable std::mutex mutex_;
  std::map<Key, std::optional<size_t>> found_;
};

}  // namespace burnish::kernels
