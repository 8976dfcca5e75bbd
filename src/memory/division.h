#pragma once
#include "memory/page.h"
#include "memory/weight_group.h"

namespace burnish::memory {

/// Says how weights of blocks are divided among processes and come together again. A weight without an owner lies in even parts with all of
/// them, and comes to a page's place at the same time as all others; one with an owner stays on its owner's device and is sent to the
/// others' places.
class Division {
 public:
  Division(std::shared_ptr<WeightGroup> group, c10::Device device, std::shared_ptr<HostStore> store);

  bool is_mine(int64_t owner) const { return owner == group_->number(); }
  /// Keeps this process's part of a weight of the page, given all of its bytes.
  void keep_part(Page& page, Page::Weight& weight, const at::Tensor& bytes);
  /// Lays what this process keeps of a page side by side, so that it travels at once; once all of its weights are known.
  void lay_out(Page& page);

  /// Begins to have come what others have of a page; `arrive` ends it.
  void bring(Page& page);
  /// The same of what owners wrote to since it came.
  void renew(Page& page);
  /// Waits for what is on its way to a page, and puts it where it belongs on the device.
  void arrive(Page& page);
  /// Owners wrote to their weights.
  void expire(Page& page);

 private:
  void put_together(Page& page);
  void make_rows(Page& page);
  void keep(Page& page, OwnerRow& row);
  void gather(Page& page);
  void broadcast(Page& page);
  HostStore::Copies copies_of_parts(const Page& page) const;
  bool travels_in_place() const { return group_->device() == device_; }

  std::shared_ptr<WeightGroup> group_;
  c10::Device device_;
  std::shared_ptr<HostStore> store_;
  bool copies_are_made_ = true;  ///< whether copies of what this process owns are made, from which they travel
};

}  // namespace burnish::memory
