#include "dist/world.h"

#include <fmt/core.h>

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "dist/address.h"
#include "dist/nccl.h"
#include "dist/store.h"
#include "dist/watch.h"

namespace burnish::dist {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr double kWaitForOthers = 5;  // seconds, at the end of a run that has failed, in which they read of it

void wait_for_all(Store& store, const Seat& seat, double patience) {
  auto start = Clock::now();
  for (int64_t rank = 0; rank < seat.size;) {
    if (store.has(here_key(rank))) {
      ++rank;
      continue;
    }
    if (interrupted()) throw Error(Exit::interrupted, "dist", "interrupted while waiting for the other processes");
    if (store.has(kFailed)) throw Error(Exit::data, "dist", store.get(kFailed));
    if (seconds_since(start) > patience) {
      std::vector<std::string> missing;
      for (; rank < seat.size; ++rank) {
        if (!store.has(here_key(rank))) missing.push_back(std::to_string(rank));
      }
      config_error("dist", "of {} processes {} did not come within {:.0f} s; see that the launcher started all of them", seat.size,
                   join(missing), patience);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Returns where the others find this process; "" leaves it to GLOO_SOCKET_IFNAME, or to the machine's name.
std::string address_of(const Seat& seat) {
  bool says_interface = !of_process("GLOO_SOCKET_IFNAME").value_or("").empty();
  return says_interface ? "" : address_towards(seat.host, seat.port);
}

bool is_checked() { return of_process("BURNISH_CHECK_COLLECTIVES").value_or("") == "1"; }

}  // namespace

std::string why_not_nccl(const std::vector<std::string>& devices) {
  std::map<std::string, size_t> first;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank].empty()) return fmt::format("process {} has no GPU, or was built without NCCL", rank);
    auto [found, is_new] = first.emplace(devices[rank], rank);
    if (!is_new) return fmt::format("processes {} and {} compute on one GPU, which NCCL refuses", found->second, rank);
  }
  return "";
}

World::World() : group_(alone()) {}

World::World(int64_t rank, int64_t size) : group_(imagined(rank, size)) {
  seat_.rank = rank;
  seat_.size = size;
}

World::World(const Seat& seat, double patience) : seat_(seat) {
  if (seat.size == 1) {
    group_ = alone();
    return;
  }
  const auto& prefix = seat.attempt;
  bool serves = seat.rank == 0 && !seat.launcher_serves;
  store_ = serves ? with_prefix(serve_store(seat.host, seat.port), prefix) : join_store(seat.host, seat.port, prefix, patience);
  store_->set(here_key(seat.rank), machine_name());
}

void World::join(c10::Device device, double patience) {
  if (!store_) return;
  wait_for_all(*store_, seat_, patience);
  watch_ = std::make_unique<Watch>(seat_, store_->clone());
  choose_way(device);
  group_ = meet_at(store_, seat_.rank, seat_.size);
}

/// All come to the same: it follows from the devices of all.
void World::choose_way(c10::Device device) {
  auto key = [](int64_t rank) { return fmt::format("device/{}", rank); };
  const auto name = device.is_cpu() ? "" : nccl_name(device);
  store_->set(key(rank()), name.empty() ? "" : machine_name() + " " + name);
  std::vector<std::string> devices;
  for (int64_t other = 0; other < size(); ++other) devices.push_back(wait_for(key(other)));
  if (device.is_cpu()) return;
  const auto why_not = why_not_nccl(devices);
  if (why_not.empty()) device_ = device;
  info("what processes exchange goes {}", why_not.empty() ? "from device to device, by NCCL" : "through main memory, by Gloo: " + why_not);
}

std::shared_ptr<Group> World::meet_at(const std::shared_ptr<Store>& store, int64_t rank, int64_t size) const {
  return join_group(store, rank, size, device_,
                    {.address = address_of(seat_),
                     .checked = is_checked(),
                     .look = [this] { watch_->look(); },
                     .why = [this](const std::string& what) { return watch_->why(what); }});
}

std::shared_ptr<Group> World::some(const std::string& name, int64_t rank, int64_t size) const {
  if (size == seat_.size) return group_;
  if (size == 1) return alone();
  return store_ ? meet_at(with_prefix(store_, name + "/"), rank, size) : imagined(rank, size);
}

World::~World() {
  if (watch_) watch_->stop();
}

std::string World::wait_for(const std::string& key) const {
  while (!store_->has(key)) {
    watch_->look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return store_->get(key);
}

std::string World::decided(const std::string& name, const std::string& text) const {
  if (!store_) return text;
  auto key = "decided/" + name;
  if (is_first()) store_->set(key, text);
  return is_first() ? text : wait_for(key);
}

void World::agree(const std::string& what, const std::string& text) const {
  if (!store_) return;
  auto key = [&](int64_t rank) { return fmt::format("agree/{}/{}", what, rank); };
  store_->set(key(rank()), text);
  auto first = wait_for(key(0));
  for (int64_t other = 1; other < size(); ++other) {
    auto theirs = wait_for(key(other));
    if (theirs == first) continue;
    config_error("dist", "process {} has other {} than process 0 ({} and {}); start all of them with the same options, files and version",
                 other, what, theirs, first);
  }
}

void World::arrive(const std::string& name) const {
  if (store_) store_->add("meet/" + name, 1);
}

void World::meet(const std::string& name) const {
  if (!store_) return;
  arrive(name);
  while (store_->add("meet/" + name, 0) < size()) {
    watch_->look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void World::leave() const {
  meet("end");
  if (watch_) watch_->stop();
}

bool World::fail(const std::string& sentence) const noexcept {
  if (!store_) return true;
  try {
    if (watch_ && watch_->is_cut_off()) return tells_without_store(seat_);
    if (!store_->has(kFailed)) store_->set(kFailed, fmt::format("process {} of {} ended: {}", rank(), size(), sentence));
    bool tells = is_told_first(*store_);
    store_->add(kEnded, 1);
    bool serves = is_first() && !seat_.launcher_serves;
    for (auto start = Clock::now(); serves && store_->add(kEnded, 0) < size() && seconds_since(start) < kWaitForOthers;)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return tells;
  } catch (const std::exception&) {
    return tells_without_store(seat_);
  }
}

}  // namespace burnish::dist
