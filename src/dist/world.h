#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"
#include "dist/seat.h"

namespace burnish::dist {

class Store;
class Watch;

/// The processes of one run, of which this is one.
///
/// A process that ends with an error says so to the others by `fail`; one that is killed or silent is found by its missing heartbeat. The
/// others then end with a sentence that names it: at their next collective, or a few seconds later wherever they are.
class World {
 public:
  static constexpr double kPatience = 300;  ///< seconds

  /// Makes the world of a process by itself.
  World();
  /// Makes the world of a process among several that are only imagined (dist/group.h).
  World(int64_t rank, int64_t size);
  /// Makes the world of a process that a launcher started: opens the store where they meet, or waits for it.
  explicit World(const Seat& seat, double patience = kPatience);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Meets the others, which takes until all are there; ahead of all that follows. A config Error when one has not come after `patience`
  /// seconds, naming it. `device`: what this one computes on.
  void join(c10::Device device = c10::Device(c10::kCPU), double patience = kPatience);

  int64_t rank() const { return seat_.rank; }
  int64_t size() const { return seat_.size; }
  bool is_first() const { return seat_.rank == 0; }
  const Seat& seat() const { return seat_; }
  Group& group() const { return *group_; }
  /// A group of `size` of the processes, of which this is `rank`. They ask for it by the same name, used once, and wait for each other.
  std::shared_ptr<Group> some(const std::string& name, int64_t rank, int64_t size) const;

  /// Throws a config Error on all processes unless their texts are equal, which says which process differs from the first one. `what` names
  /// the text in that sentence, and is used once.
  void agree(const std::string& what, const std::string& text) const;
  /// Returns the text of the first process on all of them.
  std::string decided(const std::string& name, const std::string& text) const;
  /// Says that this process has come to a seat, and waits for nobody.
  void arrive(const std::string& name) const;
  /// Waits until all have come here, however long that takes. `name` is used once.
  void meet(const std::string& name) const;

  /// Waits for all at the end of their work: from here on it does not matter who is there.
  void leave() const;

  /// Tells the others that this process ends with an error. Whether it is for this process to print it: a failure is told once, by the
  /// process that has it, or by the first to find it where that one cannot.
  bool fail(const std::string& sentence) const noexcept;

 private:
  std::string wait_for(const std::string& key) const;
  void choose_way(c10::Device device);
  std::shared_ptr<Group> meet_at(const std::shared_ptr<Store>& store, int64_t rank, int64_t size) const;

  Seat seat_;
  std::shared_ptr<Store> store_;  ///< null where nobody else is
  std::unique_ptr<Watch> watch_;
  c10::Device device_ = c10::Device(c10::kCPU);  ///< whose tensors travel without a copy in main memory, beside what lies there
  std::shared_ptr<Group> group_;
};

/// Says why what processes have on their devices cannot travel by NCCL; "" where it can. `devices`: by rank, a name that is the device's
/// alone; "" for one that NCCL does not reach.
std::string why_not_nccl(const std::vector<std::string>& devices);

}  // namespace burnish::dist
