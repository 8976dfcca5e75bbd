#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace burnish::dist {

/// A collective that is under way.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Lets what is computed from here on find the collective's results; an Error when a process it needs is gone.
  virtual void wait() = 0;
};
using PendingPtr = std::unique_ptr<Pending>;

/// Processes that compute together, numbered from 0. All start the same collectives in the same order; tensors are contiguous and lie on
/// `device` or in main memory, and belong to the collective until it was waited for.
class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// The device where tensors that travel had better lie.
  virtual c10::Device device() const { return c10::Device(c10::kCPU); }
  /// Replaces `values` by their sum over all processes, whose bits are equal everywhere.
  virtual PendingPtr sum(const at::Tensor& values) = 0;
  /// Replaces `values` by their sum for process `rank` alone; what the others have in `values` then is not said.
  virtual PendingPtr sum_at(const at::Tensor& values, int64_t rank) = 0;
  /// Fills `all` [size, ...] with the `mine` [...] of every process, by rank.
  virtual PendingPtr gather(const at::Tensor& mine, const at::Tensor& all) = 0;
  /// Fills `values` with what process `rank` has there.
  virtual PendingPtr broadcast(const at::Tensor& values, int64_t rank) = 0;
  /// Sends row r of `mine` [size, ...] to process r, into the row of `theirs` [size, ...] of this process's rank.
  virtual PendingPtr exchange(const at::Tensor& mine, const at::Tensor& theirs) = 0;
};

/// Makes a group of this process alone.
std::shared_ptr<Group> alone();
/// Makes a group of processes that are only imagined, for tensors without numbers: nothing travels. What would is on the meta device, and
/// counted there.
std::shared_ptr<Group> imagined(int64_t rank, int64_t size);

class Store;

/// Options of how processes meet.
struct JoinOptions {
  std::string address;         ///< this process's address for the others; "": as torch finds it (GLOO_SOCKET_IFNAME, the machine's name)
  bool checked = false;        ///< collectives that do not match are an Error everywhere instead of a crash, at more than twice the time
  std::function<void()> look;  ///< called while something is waited for; throws to end that
  std::function<std::string(const std::string& what)> why = nullptr;  ///< makes the sentence about a collective that failed
};

/// Processes that meet at a store. What they have in main memory travels by Gloo (c10d's ProcessGroupGloo), and what lies on `device`,
/// unless that is the CPU, by NCCL. Waits for all of them.
std::shared_ptr<Group> join_group(const std::shared_ptr<Store>& store, int64_t rank, int64_t size, c10::Device device,
                                  const JoinOptions& options);

}  // namespace burnish::dist
