#pragma once
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <new>

namespace burnish::test {

/// Counts what libtorch allocates on the CPU while it lives: bytes live, most bytes live at once, largest single block. What would go
/// beyond `limit` bytes live is refused. One lives at a time.
class Allocations {
 public:
  explicit Allocations(int64_t limit = std::numeric_limits<int64_t>::max()) {
    shared().limit = limit;
    previous_ = c10::GetCPUAllocator();
    counting_.inner = previous_;
    c10::SetCPUAllocator(&counting_, kPriority);
  }
  ~Allocations() { c10::SetCPUAllocator(previous_, kPriority); }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  int64_t live() const { return shared().live; }
  int64_t peak() const { return shared().peak; }
  int64_t largest() const { return shared().largest; }

 private:
  static constexpr uint8_t kPriority = 255;

  // Blocks may be freed after the counter is gone, so the book-keeping is one for the whole program.
  struct Book {
    std::mutex mutex;
    std::map<void*, std::pair<int64_t, void (*)(void*)>> blocks;
    int64_t live = 0, peak = 0, largest = 0, limit = 0;
  };
  static Book& shared() {
    static auto* book = new Book;
    return *book;
  }

  struct Counting : c10::Allocator {
    Counting() {
      auto& book = shared();
      std::lock_guard lock(book.mutex);
      book.live = book.peak = book.largest = 0;
      for (auto& [data, block] : book.blocks) block.first = 0;  // what others hold is not counted
    }
    c10::DataPtr allocate(size_t bytes) override {
      if (shared().live > shared().limit - static_cast<int64_t>(bytes)) throw std::bad_alloc();
      auto block = inner->allocate(bytes);
      auto* data = block.get();
      if (data == nullptr) return block;
      auto& book = shared();
      std::lock_guard lock(book.mutex);
      book.blocks[data] = {static_cast<int64_t>(bytes), block.get_deleter()};
      book.live += static_cast<int64_t>(bytes);
      book.peak = std::max(book.peak, book.live);
      book.largest = std::max(book.largest, static_cast<int64_t>(bytes));
      auto* context = block.release_context();
      return {data, context, &free_block, c10::Device(c10::kCPU)};
    }
    static void free_block(void* data) {
      auto& book = shared();
      void (*deleter)(void*) = nullptr;
      {
        std::lock_guard lock(book.mutex);
        auto it = book.blocks.find(data);
        if (it != book.blocks.end()) {
          book.live -= it->second.first;
          deleter = it->second.second;
          book.blocks.erase(it);
        } else {  // memory from before the counter, given back by whoever holds a plain pointer
          deleter = c10::GetDefaultCPUAllocator()->raw_deleter();
        }
      }
      deleter(data);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
    c10::Allocator* inner = nullptr;
  };

  Counting counting_;
  c10::Allocator* previous_ = nullptr;
};

}  // namespace burnish::test
