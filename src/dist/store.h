#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace burnish::dist {

/// A small table of texts and counters that all processes of a run read and write (c10d's TCPStore). Whoever reaches its port may write
/// to it, so nothing secret is kept there. Every call throws an Error (Exit::data) when the store is gone.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& text) = 0;
  virtual bool has(const std::string& key) = 0;
  /// Reads the text of a key that is there.
  virtual std::string get(const std::string& key) = 0;
  /// Adds to a counter that begins at 0; its sum.
  virtual int64_t add(const std::string& key, int64_t number) = 0;
  /// Opens another connection to this table: calls on one connection wait for each other.
  virtual std::shared_ptr<Store> clone() = 0;
  virtual int64_t port() const = 0;
};

/// A new store that this process serves at a port, 0 for one that is free. A config Error where the port is taken.
std::shared_ptr<Store> serve_store(const std::string& host, int64_t port);

/// Opens the store that another process serves, and waits for it for `seconds`. Keys get `prefix`.
std::shared_ptr<Store> join_store(const std::string& host, int64_t port, const std::string& prefix, double seconds);
/// Gives a view of a store under keys that begin with `prefix`.
std::shared_ptr<Store> with_prefix(const std::shared_ptr<Store>& store, const std::string& prefix);

}  // namespace burnish::dist
