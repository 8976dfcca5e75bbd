// What waits in host memory: copies, inputs of recomputed blocks, and weights of blocks.
#include "memory/paging.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <barrier>
#include <thread>

#include "io/safetensors.h"
#include "memory/recompute.h"
#include "nn/linear.h"
#include "tests/allocations.h"
#include "tests/scratch.h"

namespace burnish::paging_test {

namespace {

constexpr int64_t kWidth = 64;

/// x + tanh(W x + b) s, where s trains and W does not; a second input is shared by all blocks.
struct Layer : nn::Block {
  explicit Layer(int64_t seed) {
    at::manual_seed(static_cast<uint64_t>(seed));
    linear.weight = at::randn({kWidth, kWidth}) / 8;
    linear.bias = at::randn({kWidth});
    scale = at::randn({kWidth}).requires_grad_(true);
    own("linear", linear);
    own("scale", scale);
  }
  nn::Tensors body(const nn::Tensors& in) override { return {in[0] + at::tanh(linear.forward(in[0]) + in[1]) * scale}; }
  nn::Linear linear{kWidth, kWidth, at::TensorOptions()};
  at::Tensor scale;
};

struct Model {
  explicit Model(int64_t num_blocks = 7) {
    for (int64_t i = 0; i < num_blocks; ++i) blocks.push_back(std::make_unique<Layer>(i));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& shared) {
    auto y = x;
    for (auto& block : blocks) y = block->run({y, shared})[0];
    return y.square().sum();
  }
  /// Gradients of what trains and of the inputs, from two steps.
  std::vector<at::Tensor> gradients() {
    at::manual_seed(99);
    auto x = at::randn({5, kWidth});
    return gradients_of(x, at::randn({5, kWidth}));
  }
  std::vector<at::Tensor> gradients_of(const at::Tensor& values, const at::Tensor& shared_values) {
    auto x = values.clone().requires_grad_(true), shared = shared_values.clone().requires_grad_(true);
    for (int step = 0; step < 2; ++step) torch::autograd::backward({forward(x, shared)}, {});
    std::vector<at::Tensor> all{x.grad(), shared.grad()};
    for (auto& block : blocks) {
      all.push_back(block->scale.grad());
      if (block->linear.weight.requires_grad()) all.push_back(block->linear.weight.grad());
    }
    return all;
  }
  std::shared_ptr<memory::Pager> page(int64_t num_paged, const std::shared_ptr<memory::HostStore>& store, size_t num_places = 2) {
    auto pager = std::make_shared<memory::Pager>(store, c10::Device(c10::kCPU), num_places);
    for (auto i : memory::paged_blocks(std::ssize(blocks), num_paged)) {
      pager->take(*blocks[static_cast<size_t>(i)]);
      blocks[static_cast<size_t>(i)]->runner = pager->runner();
    }
    pager->make_places();
    return pager;
  }
  void recompute(const std::shared_ptr<memory::Checkpoints>& checkpoints = nullptr, size_t interval = 1) {
    for (size_t i = 0; i < blocks.size(); i += interval) blocks[i]->runner = memory::recompute(blocks[i]->runner, checkpoints);
  }
  std::vector<std::unique_ptr<Layer>> blocks;
};

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

/// Processes are threads here, that wait for each other in whatever they do together.
class Threads final : public memory::WeightGroup {
 public:
  struct Meeting {
    explicit Meeting(std::ptrdiff_t size) : tensors(static_cast<size_t>(size)), all_there(size) {}
    std::vector<at::Tensor> tensors;
    std::barrier<> all_there;
  };
  /// On another `device` than the blocks, all travels by way of host memory.
  Threads(int64_t number, Meeting& meeting, c10::Device device = c10::Device(c10::kCPU))
      : number_(number), meeting_(meeting), device_(device) {}
  int64_t number() const override { return number_; }
  int64_t count() const override { return std::ssize(meeting_.tensors); }
  c10::Device device() const override { return device_; }
  std::shared_ptr<memory::CopyQueue::Arrival> gather(const at::Tensor& mine, const at::Tensor& all) override {
    meeting_.tensors[static_cast<size_t>(number_)] = mine;
    meeting_.all_there.arrive_and_wait();
    for (int64_t i = 0; i < count(); ++i) all.select(0, i).copy_(meeting_.tensors[static_cast<size_t>(i)]);
    meeting_.all_there.arrive_and_wait();
    return std::make_shared<Here>();
  }
  std::shared_ptr<memory::CopyQueue::Arrival> broadcast(const at::Tensor& bytes, int64_t from) override {
    if (number_ == from) meeting_.tensors[0] = bytes;
    meeting_.all_there.arrive_and_wait();
    if (number_ != from) bytes.copy_(meeting_.tensors[0]);
    meeting_.all_there.arrive_and_wait();
    return std::make_shared<Here>();
  }

 private:
  class Here final : public memory::CopyQueue::Arrival {
    void wait() const override {}
  };
  int64_t number_;
  Meeting& meeting_;
  c10::Device device_;
};

std::shared_ptr<memory::HostStore> host() { return std::make_shared<memory::HostStore>(c10::Device(c10::kCPU)); }

}  // namespace

TEST(HostStore, CopiesAreTheSameBitsAndAreCounted) {
  memory::HostStore store(c10::kCPU);
  auto turned = at::randn({4, 6}).t();
  {
    auto in_host = store.put(turned);
    EXPECT_TRUE(at::equal(in_host, turned));
    EXPECT_EQ(in_host.strides(), turned.strides());
    EXPECT_NE(in_host.data_ptr(), turned.data_ptr());
    EXPECT_EQ(store.num_bytes(), 96);
    auto back = at::zeros({4, 6}).t();
    store.wait(store.fetch({{back, in_host}}));
    EXPECT_TRUE(at::equal(back, turned));
    store.update({{turned + 1, in_host}});
    EXPECT_TRUE(at::equal(in_host, turned + 1));
  }
  EXPECT_EQ(store.num_bytes(), 0);
  EXPECT_EQ(store.peak(), 96);
}

TEST(HostStore, CountsWithoutHoldingInADryRun) {
  memory::HostStore store(c10::kMeta);
  auto in_host = store.put(at::empty({1 << 20, 1 << 20}, at::TensorOptions().device(at::kMeta)));
  EXPECT_EQ(store.num_bytes(), int64_t{1} << 42);
  EXPECT_TRUE(in_host.is_cpu());
}

TEST(Checkpoints, InHostMemoryGiveTheSameBits) {
  const auto plain = Model().gradients();
  for (size_t interval : {1, 2, 3}) {
    auto store = host();
    Model model;
    model.recompute(std::make_shared<memory::Checkpoints>(store), interval);
    expect_equal(model.gradients(), plain);
    EXPECT_EQ(store->num_bytes(), 0);
    // The inputs of the recomputed blocks, and the one that they share.
    const auto num_kept = static_cast<int64_t>((model.blocks.size() + interval - 1) / interval) + 1;
    EXPECT_EQ(store->peak(), num_kept * 5 * kWidth * 4);
  }
}

TEST(Checkpoints, LeaveTheDevice) {
  auto x = at::randn({1000, kWidth}), shared = at::randn({1000, kWidth});
  auto kept = [&](bool in_host) {
    test::Allocations allocations;
    auto store = host();
    Model model;
    model.recompute(in_host ? std::make_shared<memory::Checkpoints>(store) : nullptr);
    auto y = model.forward(x, shared);
    return allocations.live() - store->num_bytes();
  };
  EXPECT_LT(kept(true), kept(false) / 4);
}

TEST(Pager, DividedAmongProcessesBlocksGiveTheSameBits) {
  const auto plain = Model().gradients();
  at::manual_seed(99);
  const auto x = at::randn({5, kWidth}), shared = at::randn({5, kWidth});
  for (bool recomputes : {false, true}) {
    constexpr int64_t kProcesses = 3;
    Threads::Meeting meeting(kProcesses);
    std::vector<Model> models(kProcesses);
    std::vector<std::vector<at::Tensor>> gradients(kProcesses);
    std::vector<std::shared_ptr<memory::HostStore>> stores;
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < kProcesses; ++i) {
      const auto number = static_cast<size_t>(i);
      stores.push_back(host());
      threads.emplace_back([&, i, number, store = stores.back()] {
        auto& model = models[number];
        auto pager = std::make_shared<memory::Pager>(store, c10::Device(c10::kCPU), 2, std::make_shared<Threads>(i, meeting));
        for (auto& block : model.blocks) {
          pager->take(*block);
          block->runner = pager->runner();
        }
        pager->make_places();
        // The matrix and two vectors of each block, a third of each, rounded up.
        EXPECT_EQ(pager->num_waiting_bytes(), 7 * ((4 * kWidth * kWidth + 2) / 3 + 2 * ((4 * kWidth + 2) / 3)));
        if (recomputes) model.recompute();
        gradients[number] = model.gradients_of(x, shared);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& of_process : gradients) expect_equal(of_process, plain);
    for (const auto& store : stores) EXPECT_LT(store->peak(), 7 * 4 * kWidth * kWidth) << "less than all weights";
  }
}

namespace {

constexpr int64_t kOwners = 3;

/// What one of several processes has of a model whose matrices train, each with its owner, after a step in which owners add 1 to theirs.
struct Trained {
  std::vector<at::Tensor> before, after;  ///< gradients
  int64_t waiting = 0, on_device = 0, in_host = 0;
};

Trained train(Model& model, int64_t number, Threads::Meeting& meeting, c10::Device travels_on, bool recomputes, const at::Tensor& x,
              const at::Tensor& shared) {
  Trained result;
  auto store = host();
  auto pager = std::make_shared<memory::Pager>(store, c10::Device(c10::kCPU), 2, std::make_shared<Threads>(number, meeting, travels_on));
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    auto& block = *model.blocks[i];
    block.linear.weight.requires_grad_(true);
    pager->take(block, {}, [i](const std::string& name) {
      return name == "linear.weight" ? std::optional(static_cast<int64_t>(i) % kOwners) : std::nullopt;
    });
    block.runner = pager->runner();
  }
  pager->make_places();
  if (recomputes) model.recompute();
  auto gradients = [&] {
    for (auto& block : model.blocks) block->linear.weight.mutable_grad() = block->scale.mutable_grad() = at::Tensor();
    return model.gradients_of(x, shared);
  };
  result.before = gradients();
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    auto& weight = model.blocks[i]->linear.weight;
    const bool is_mine = static_cast<int64_t>(i) % kOwners == number;
    EXPECT_EQ(pager->block_of(weight).has_value(), !is_mine);
    if (is_mine) weight.detach().add_(1);
  }
  pager->expire();
  result.after = gradients();
  result.waiting = pager->num_waiting_bytes();
  result.on_device = pager->num_device_bytes();
  result.in_host = store->peak();
  return result;
}

}  // namespace

TEST(Pager, WeightsThatTrainStayWithTheirOwners) {
  Model before, after;
  for (auto& block : before.blocks) block->linear.weight.requires_grad_(true);
  for (auto& block : after.blocks) block->linear.weight = (block->linear.weight + 1).requires_grad_(true);
  at::manual_seed(99);
  const auto x = at::randn({5, kWidth}), shared = at::randn({5, kWidth});
  const auto expected_before = before.gradients_of(x, shared), expected_after = after.gradients_of(x, shared);
  for (auto travels_on : {c10::Device(c10::kCPU), c10::Device(c10::kMeta)}) {
    for (bool recomputes : {false, true}) {
      Threads::Meeting meeting(kOwners);
      std::vector<Model> models(kOwners);
      std::vector<Trained> results(kOwners);
      std::vector<std::thread> threads;
      for (size_t i = 0; i < models.size(); ++i) {
        threads.emplace_back(
            [&, i] { results[i] = train(models[i], static_cast<int64_t>(i), meeting, travels_on, recomputes, x, shared); });
      }
      for (auto& thread : threads) thread.join();
      constexpr int64_t kMatrix = 4 * kWidth * kWidth, kVectors = 4 * kWidth * 2;
      for (size_t i = 0; i < results.size(); ++i) {
        expect_equal(results[i].before, expected_before);
        expect_equal(results[i].after, expected_after);
        // Of seven blocks the first process has three matrices, and the others two; of the vectors all have a third, rounded up.
        EXPECT_EQ(results[i].waiting, (i == 0 ? 3 : 2) * kMatrix + 7 * 2 * ((4 * kWidth + 2) / 3));
        EXPECT_EQ(results[i].on_device, 2 * (kMatrix + kVectors));
        if (travels_on.is_cpu()) {
          EXPECT_LT(results[i].in_host, kMatrix) << "no matrix is copied on its way";
        }
      }
    }
  }
}

namespace {

/// Blocks of a model whose weights lie in a file, and a pager that reads them from there.
struct InFiles {
  test::Scratch scratch;
  std::shared_ptr<io::SafetensorsFile> file;
  std::shared_ptr<memory::HostStore> store = host();
  Model model;
  std::shared_ptr<memory::Pager> pager;

  /// `changed`: a block whose matrix is another in memory.
  explicit InFiles(size_t num_places = 2, int64_t changed = -1) {
    io::NamedTensors all;
    for (size_t i = 0; i < model.blocks.size(); ++i) {
      for (auto& [name, parameter] : model.blocks[i]->parameters()) {
        if (name != "scale") all.emplace_back(std::to_string(i) + "." + name, *parameter);
      }
    }
    io::save_safetensors(path(), all);
    file = io::SafetensorsFile::open(path());
    if (changed >= 0) model.blocks[static_cast<size_t>(changed)]->linear.weight[0][0] += 1;
    pager = std::make_shared<memory::Pager>(store, c10::Device(c10::kCPU), num_places);
    for (size_t i = 0; i < model.blocks.size(); ++i) {
      pager->take(*model.blocks[i], [this, i](const std::string& name) {
        auto whole = std::to_string(i) + "." + name;
        return file->tensors().contains(whole) ? file->tensor(whole) : at::Tensor();
      });
      model.blocks[i]->runner = pager->runner();
    }
    pager->make_places();
  }
  std::filesystem::path path() const { return scratch / "weights.safetensors"; }
};

constexpr int64_t kFrozen = (kWidth + 1) * kWidth * 4, kScale = kWidth * 4;

}  // namespace

TEST(PagingFromFiles, GivesTheSameBitsForwardAndBackward) {
  const auto plain = Model().gradients();
  for (size_t num_places : {1, 2, 4}) {
    for (size_t interval : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << num_places << " places, recomputed " << interval);
      InFiles run(num_places);
      const auto before = test::content(run.path());
      if (interval > 0) run.model.recompute(nullptr, interval);
      expect_equal(run.model.gradients(), plain);
      EXPECT_EQ(run.pager->num_file_bytes(), 7 * kFrozen);
      EXPECT_EQ(run.store->peak(), 7 * kScale) << "what trains is in no file";
      EXPECT_EQ(test::content(run.path()), before);
    }
  }
}

TEST(PagingFromFiles, TakesWhatTheFileHasOtherwiseToHostMemory) {
  InFiles run(2, /*changed=*/3);
  EXPECT_EQ(run.store->num_bytes(), 7 * kScale + kWidth * kWidth * 4);
  Model other;
  other.blocks[3]->linear.weight[0][0] += 1;
  expect_equal(run.model.gradients(), other.gradients());
}

TEST(PagingFromFiles, IsForWeightsThatAreOnlyRead) {
  InFiles run;
  EXPECT_THROW(run.pager->mark_changed(2), std::logic_error);
}

TEST(Paging, LiesBetweenBlocksThatStay) {
  using testing::ElementsAre;
  EXPECT_THAT(memory::paged_blocks(8, 2), ElementsAre(2, 6));
  EXPECT_THAT(memory::paged_blocks(5, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(memory::paged_blocks(5, 4), ElementsAre(0, 1, 3, 4));
  EXPECT_TRUE(memory::paged_blocks(5, 0).empty());
}

TEST(Paging, GivesTheSameBitsForwardAndBackward) {
  const auto plain = Model().gradients();
  for (int64_t num_paged : {1, 2, 3, 7}) {
    for (int64_t interval : {0, 1, 2}) {
      for (size_t num_places : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << num_paged << " paged, recomputed " << interval << ", places " << num_places);
        Model model;
        auto pager = model.page(num_paged, host(), num_places);
        if (interval > 0) model.recompute(nullptr, static_cast<size_t>(interval));
        expect_equal(model.gradients(), plain);
      }
    }
  }
}

TEST(Paging, HoldsTwoBlocksOnTheDevice) {
  const int64_t of_block = (kWidth * kWidth + 2 * kWidth) * 4;
  test::Allocations allocations;
  auto store = host();
  Model model;
  EXPECT_EQ(allocations.live(), 7 * of_block);
  auto pager = model.page(7, store);
  EXPECT_EQ(store->num_bytes(), 7 * of_block);
  EXPECT_EQ(pager->num_device_bytes(), 2 * of_block);
  EXPECT_EQ(allocations.live() - store->num_bytes(), 2 * of_block);
  at::NoGradGuard no_grad;
  auto x = at::zeros({1, kWidth});
  model.forward(x, x);
  EXPECT_EQ(model.blocks[0]->linear.weight.storage().data(), nullptr) << "the first of seven is long gone";
  EXPECT_NE(model.blocks[6]->linear.weight.storage().data(), nullptr);
}

TEST(Paging, HasWhatWasWrittenToABlockGoBackWithIt) {
  Model model;
  const auto before = model.blocks[2]->linear.weight.clone();
  auto pager = model.page(7, host());
  const auto number = pager->block_of(model.blocks[2]->linear.weight);
  ASSERT_EQ(number, 2u);
  EXPECT_FALSE(pager->block_of(before));
  pager->bring(2);
  model.blocks[2]->linear.weight.add_(1);
  pager->mark_changed(2);
  for (size_t other : {5, 6, 0}) pager->bring(other);
  EXPECT_EQ(model.blocks[2]->linear.weight.storage().data(), nullptr);
  pager->bring(2);
  EXPECT_TRUE(at::equal(model.blocks[2]->linear.weight, before + 1));
  // What lies in host memory is the block's, both ways.
  model.blocks[2]->linear.weight.add_(1);
  pager->mark_changed(2);
  auto in_host = pager->in_host(2, model.blocks[2]->linear.weight);
  EXPECT_TRUE(at::equal(in_host, before + 1 + 1));
  in_host.copy_(before);
  pager->bring(2);
  EXPECT_TRUE(at::equal(model.blocks[2]->linear.weight, before));
}

TEST(Paging, BringsAWeightToWhoeverReadsIt) {
  Model model, other;
  auto pager = model.page(7, host());
  for (size_t i : {6, 0, 3}) {
    auto rows = model.blocks[i]->linear.source().rows(1, 3);
    EXPECT_TRUE(at::equal(rows, other.blocks[i]->linear.weight.narrow(0, 1, 2))) << i;
  }
}

}  // namespace burnish::paging_test
