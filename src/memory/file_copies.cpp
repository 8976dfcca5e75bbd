#include "memory/file_copies.h"

#include <sys/mman.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "memory/mapped_reader.h"

namespace burnish::memory {

namespace {

/// Runs tasks one after the other.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    add({});
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// One that is empty is the last.
  void add(std::packaged_task<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wakes_.notify_one();
  }

 private:
  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, [this] { return !tasks_.empty(); });
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task.valid()) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::thread thread_;
};

class FileCopies final : public CopyQueue {
 public:
  FileCopies(c10::Device device, std::shared_ptr<HostStore> store) : device_(device), store_(std::move(store)) {}

  std::shared_ptr<Arrival> go(const Copies& copies) override {
    Copies reads = copies, rest;
    for (auto& [to, from] : reads) {
      if (device_.is_cpu()) break;
      rest.emplace_back(to, store_->room_for(from));
      to = rest.back().second;
    }
    std::packaged_task<void()> task([this, reads] {
      for (const auto& [to, from] : reads) reader_.expect(from);
      for (const auto& [to, from] : reads) reader_.read(to, from);
    });
    last_ = task.get_future().share();
    auto arrival = std::make_shared<Coming>(last_, store_, std::move(rest));
    worker_.add(std::move(task));
    return arrival;
  }

  void synchronize() override {
    if (last_.valid()) last_.wait();
  }

 private:
  class Coming final : public Arrival {
   public:
    Coming(std::shared_future<void> read, std::shared_ptr<HostStore> store, Copies rest)
        : read_(std::move(read)), store_(std::move(store)), rest_(std::move(rest)) {}
    void wait() const override {
      read_.get();
      if (!rest_.empty()) arrival_ = store_->fetch(std::exchange(rest_, {}));
      store_->wait(arrival_);
    }

   private:
    std::shared_future<void> read_;
    std::shared_ptr<HostStore> store_;
    mutable Copies rest_;  ///< to the device, which begin when they are waited for
    mutable HostStore::Arrival arrival_;
  };

  c10::Device device_;
  std::shared_ptr<HostStore> store_;
  std::shared_future<void> last_;
  MappedReader reader_;  ///< of the worker's thread
  Worker worker_;
};

}  // namespace

void let_go(const at::Tensor& mapped) { advise(mapped, MADV_DONTNEED); }

std::shared_ptr<CopyQueue> copy_queue_from_files(c10::Device device, std::shared_ptr<HostStore> store) {
  return std::make_shared<FileCopies>(device, std::move(store));
}

}  // namespace burnish::memory
