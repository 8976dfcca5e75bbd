#define USE_C10D_GLOO
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "dist/address.h"
#include "dist/group.h"
#include "dist/nccl.h"
#include "dist/store.h"

// The file that sees c10d, beside nccl.cpp. Of gloo itself only its names are used: the headers that Debian has are older than the gloo
// inside libtorch.

namespace burnish::dist {

namespace {

using namespace std::chrono_literals;

/// The first line of what c10d says.
std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

/// The Error about a collective that failed.
Error lost(const JoinOptions& options, const std::exception& error) {
  auto what = first_line(error);
  return {Exit::data, "dist", options.why ? options.why(what) : what};
}

class C10dStore final : public Store {
 public:
  explicit C10dStore(c10::intrusive_ptr<c10d::Store> store, int64_t port) : store_(std::move(store)), port_(port) {}

  void set(const std::string& key, const std::string& text) override {
    ask([&] {
      store_->set(key, std::vector<uint8_t>(text.begin(), text.end()));
      return store_->check({key});  // setting alone succeeds without a store
    });
  }
  bool has(const std::string& key) override {
    return ask([&] { return store_->check({key}); });
  }
  std::string get(const std::string& key) override {
    auto bytes = ask([&] { return store_->get(key); });
    return {bytes.begin(), bytes.end()};
  }
  int64_t add(const std::string& key, int64_t number) override {
    return ask([&] { return store_->add(key, number); });
  }
  std::shared_ptr<Store> clone() override { return std::make_shared<C10dStore>(store_->clone(), port_); }
  int64_t port() const override { return port_; }
  const c10::intrusive_ptr<c10d::Store>& c10d_store() const { return store_; }

 private:
  template <class Call>
  std::invoke_result_t<Call> ask(const Call& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      data_error("dist", "the store where the processes meet does not answer: {}", first_line(error));
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t port_;
};

/// Keeps c10d from speaking of a connection that broke, which is told here in a sentence of ours.
void silence_c10d() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
}

c10d::TCPStoreOptions store_options(int64_t port, bool serves, double seconds) {
  silence_c10d();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
  return options;
}

/// No collective is given up by the clock: another process may be drawing previews.
constexpr auto kNoLimit = std::chrono::milliseconds(24h * 365);

/// The host waits.
class GlooPending final : public Pending {
 public:
  GlooPending(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors, const JoinOptions& options)
      : work_(std::move(work)), tensors_(std::move(tensors)), options_(options) {}
  ~GlooPending() override {
    // One that is dropped after an error elsewhere still writes into its tensors.
    if (work_ && !work_->isCompleted()) leak();
  }
  void wait() override {
    for (int turn = 0; !work_->isCompleted(); ++turn) {
      if (turn % 256 == 255) look();
      if (turn < 64) std::this_thread::yield();
      else std::this_thread::sleep_for(turn < 1024 ? 20us : 500us);
    }
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw lost(options_, error);
    }
  }

 private:
  void look() const {
    if (options_.look) options_.look();
  }
  void leak() {
    new std::vector<at::Tensor>(std::move(tensors_));
    new c10::intrusive_ptr<c10d::Work>(std::move(work_));
  }

  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> tensors_;
  const JoinOptions& options_;
};

/// The device waits; the host goes on to tell it what to compute next. A process that is gone is noticed by the watch, which ends this one.
class NcclPending final : public Pending {
 public:
  NcclPending(c10::intrusive_ptr<c10d::Work> work, const JoinOptions& options) : work_(std::move(work)), options_(options) {}
  void wait() override {
    if (options_.look) options_.look();
    try {
      work_->wait();
    } catch (const std::exception& error) {
      throw lost(options_, error);
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;  ///< holds the tensors until then
  const JoinOptions& options_;
};

/// Of tensors in main memory, by Gloo, or of tensors on one device, by NCCL.
class C10dGroup final : public Group {
 public:
  C10dGroup(c10::intrusive_ptr<c10d::Backend> backend, c10::Device device, JoinOptions options)
      : backend_(std::move(backend)), device_(device), options_(std::move(options)) {}
  ~C10dGroup() override {
    // Threads of the backend cannot be called back from a collective whose peer is gone; a process that ends so leaves them behind.
    if (has_failed_) new c10::intrusive_ptr<c10d::Backend>(std::move(backend_));
    else if (!device_.is_cpu()) backend_->shutdown();
  }

  int64_t rank() const override { return backend_->getRank(); }
  int64_t size() const override { return backend_->getSize(); }
  c10::Device device() const override { return device_; }

  PendingPtr sum(const at::Tensor& values) override {
    return start({values}, [&] {
      std::vector<at::Tensor> list{values};
      return backend_->allreduce(list);
    });
  }
  PendingPtr sum_at(const at::Tensor& values, int64_t rank) override {
    return start({values}, [&] {
      std::vector<at::Tensor> list{values};
      c10d::ReduceOptions to;
      to.rootRank = rank;
      return backend_->reduce(list, to);
    });
  }
  PendingPtr gather(const at::Tensor& mine, const at::Tensor& all) override {
    return start({mine, all}, [&] {
      auto to = all.view({-1}), from = mine.reshape({-1});
      return backend_->_allgather_base(to, from);
    });
  }
  PendingPtr broadcast(const at::Tensor& values, int64_t rank) override {
    return start({values}, [&] {
      std::vector<at::Tensor> list{values};
      c10d::BroadcastOptions from;
      from.rootRank = rank;
      return backend_->broadcast(list, from);
    });
  }
  PendingPtr exchange(const at::Tensor& mine, const at::Tensor& theirs) override {
    return start({mine, theirs}, [&] {
      auto to = theirs, from = mine;
      std::vector<int64_t> even;
      return backend_->alltoall_base(to, from, even, even);
    });
  }

 private:
  template <class Start>
  PendingPtr start(std::vector<at::Tensor> tensors, const Start& begin) {
    try {
      has_failed_ = true;  // until it has been begun
      auto work = begin();
      has_failed_ = false;
      if (device_.is_cpu()) return std::make_unique<GlooPending>(std::move(work), std::move(tensors), options_);
      return std::make_unique<NcclPending>(std::move(work), options_);
    } catch (const std::exception& error) {
      throw lost(options_, error);
    }
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::Device device_;
  JoinOptions options_;
  bool has_failed_ = false;
};

/// Each tensor goes the way of where it lies.
class BothWays final : public Group {
 public:
  BothWays(std::shared_ptr<Group> in_host, std::shared_ptr<Group> on_device)
      : in_host_(std::move(in_host)), on_device_(std::move(on_device)) {}

  int64_t rank() const override { return in_host_->rank(); }
  int64_t size() const override { return in_host_->size(); }
  c10::Device device() const override { return on_device_->device(); }
  PendingPtr sum(const at::Tensor& values) override { return way_of(values).sum(values); }
  PendingPtr sum_at(const at::Tensor& values, int64_t rank) override { return way_of(values).sum_at(values, rank); }
  PendingPtr gather(const at::Tensor& mine, const at::Tensor& all) override { return way_of(mine).gather(mine, all); }
  PendingPtr broadcast(const at::Tensor& values, int64_t rank) override { return way_of(values).broadcast(values, rank); }
  PendingPtr exchange(const at::Tensor& mine, const at::Tensor& theirs) override { return way_of(mine).exchange(mine, theirs); }

 private:
  Group& way_of(const at::Tensor& tensor) const { return tensor.is_cpu() ? *in_host_ : *on_device_; }

  std::shared_ptr<Group> in_host_, on_device_;
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, int64_t rank,
                                            int64_t size, const JoinOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  auto gloo = options.address.empty() ? Gloo::Options::create_default(kNoLimit) : Gloo::Options::create(kNoLimit);
  if (!options.address.empty()) gloo->devices.push_back(Gloo::createDeviceForHostname(options.address));
  gloo->threads = 2;
  auto keys = c10::make_intrusive<c10d::PrefixStore>(name, store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(keys, static_cast<int>(rank), static_cast<int>(size), gloo);
}

}  // namespace

std::shared_ptr<Store> serve_store(const std::string& host, int64_t port) {
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, store_options(port, true, 60));
    auto served = static_cast<int64_t>(store->getPort());
    return std::make_shared<C10dStore>(std::move(store), served);
  } catch (const std::exception& error) {
    config_error("dist", "no store can be served at {}:{} ({}); free the port, or export another MASTER_PORT", host, port,
                 first_line(error));
  }
}

/// Refuses a name that no machine has.
static void check_name(const std::string& host) {
  if (!has_address(host)) config_error("dist", "no machine is called {}, where the processes are to meet; see what MASTER_ADDR says", host);
}

std::shared_ptr<Store> join_store(const std::string& host, int64_t port, const std::string& prefix, double seconds) {
  constexpr double kPatienceForNames = 60, kBetweenLooks = 5;  // a name may be known only once its machine has started
  const auto begin = std::chrono::steady_clock::now();
  auto waited = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  while (true) {
    if (interrupted()) throw Error(Exit::interrupted, "dist", fmt::format("interrupted while waiting for the others at {}:{}", host, port));
    if (waited() > kPatienceForNames) check_name(host);
    try {
      auto store = c10::make_intrusive<c10d::TCPStore>(host, store_options(port, false, std::min(seconds, kBetweenLooks)));
      store->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds)));
      return std::make_shared<C10dStore>(c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store)), port);
    } catch (const std::exception& error) {
      if (waited() < seconds) continue;
      check_name(host);
      config_error("dist", "nobody answers at {}:{}, where the processes are to meet ({}); see that the first process started, and that {}",
                   host, port, first_line(error), "MASTER_ADDR and MASTER_PORT name it");
    }
  }
}

std::shared_ptr<Store> with_prefix(const std::shared_ptr<Store>& store, const std::string& prefix) {
  auto& c10d_store = dynamic_cast<C10dStore&>(*store);
  return std::make_shared<C10dStore>(c10::make_intrusive<c10d::PrefixStore>(prefix, c10d_store.c10d_store()), store->port());
}

std::shared_ptr<Group> join_group(const std::shared_ptr<Store>& store, int64_t rank, int64_t size, c10::Device device,
                                  const JoinOptions& options) {
  const auto& c10d_store = dynamic_cast<const C10dStore&>(*store).c10d_store();
  auto group_of = [&](c10::intrusive_ptr<c10d::Backend> backend, const std::string& name, c10::Device on) -> std::shared_ptr<Group> {
    if (options.checked) {
      auto checks = make_gloo(c10d_store, name, rank, size, options);
      backend = c10::make_intrusive<c10d::ProcessGroupWrapper>(backend, checks);
    }
    return std::make_shared<C10dGroup>(std::move(backend), on, options);
  };
  try {
    auto in_host = group_of(make_gloo(c10d_store, "gloo/", rank, size, options), "checks/", c10::Device(c10::kCPU));
    if (device.is_cpu()) return in_host;
    auto keys = c10::make_intrusive<c10d::PrefixStore>("nccl/", c10d_store);
    return std::make_shared<BothWays>(in_host, group_of(make_nccl(keys, rank, size, kNoLimit), "checks of nccl/", device));
  } catch (const std::exception& error) {
    throw lost(options, error);
  }
}

}  // namespace burnish::dist
