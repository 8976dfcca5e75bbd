#include "models/model/block_by_block.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/fiber.h"

namespace burnish::models {

namespace {

constexpr int64_t kBytesAtWork = 512 << 20, kMostAtWork = 256;

int64_t bytes_of(const nn::Tensors& tensors) {
  int64_t num_bytes = 0;
  for (const auto& tensor : tensors) num_bytes += tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
  return num_bytes;
}

}  // namespace

std::set<std::string> too_large_encoders(const Components& components, std::optional<int64_t> num_bytes) {
  std::set<std::string> names;
  if (!num_bytes) return names;
  for (const auto& component : components.list()) {
    const auto& recipe = *components.find(component.name);
    const bool is_read = recipe.weights_from == WeightsFrom::files && recipe.source.tensors;
    if (recipe.tokenizer && is_read && component.num_bytes > *num_bytes / 4 * 3) names.insert(component.name);
  }
  return names;
}

struct BlockByBlock::Work {
  std::unique_ptr<Fiber> fiber;
  size_t block = 0;       ///< the number of the block that it waits for
  int64_t num_bytes = 0;  ///< of what it reads there
};

/// Has a work wait for a block before it runs it.
class BlockByBlock::Runner final : public nn::BlockRunner {
 public:
  explicit Runner(BlockByBlock& all) : all_(all) {
    for (size_t number = 0; number < all.blocks_.size(); ++number) numbers_[all.blocks_[number]] = number;
  }
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    if (all_.at_work_ == nullptr) throw std::logic_error(all_.name_ + " is read block by block, and was run as if it were whole");
    all_.at_work_->block = numbers_.at(&block);
    all_.at_work_->num_bytes = bytes_of(inputs);
    Fiber::pause();
    return nn::run_body(block, inputs);
  }

 private:
  BlockByBlock& all_;
  std::map<const nn::Block*, size_t> numbers_;
};

BlockByBlock::BlockByBlock(Components& components, const std::string& name) : components_(components), name_(name) {
  if (components.is_loaded(name)) throw std::logic_error(name + " is loaded already");
  components.check(name);
  const auto& recipe = *components.find(name);
  auto built = components.skeleton(name);
  blocks_ = recipe.blocks ? recipe.blocks(*built) : nn::blocks_below(*built);
  weights_ = std::make_unique<WeightPieces>(*built, components.skeleton(name), components.reading(name, *built),
                                            std::vector<nn::Module*>(blocks_.begin(), blocks_.end()));
  weights_->read_rest();
  put_words(*built, recipe, components.holding(name).words);
  const auto runner = std::make_shared<Runner>(*this);
  for (auto* block : blocks_) block->runner = runner;
  components.loaded_[name] = std::move(built);
}

BlockByBlock::~BlockByBlock() {
  weights_.reset();
  components_.unload(name_);
}

bool BlockByBlock::run(int64_t count, const std::function<void(int64_t)>& work, const std::function<bool()>& goes_on) {
  for (int64_t next = 0; next < count;) {
    auto works = begin(next, count, work);
    while (!works.empty()) {
      const auto later = [&](const auto& each) { return here_ && each->block <= *here_; };
      const auto first = std::ranges::min_element(works, {}, [&](const auto& each) { return std::pair(later(each), each->block); });
      bring((*first)->block);
      if (goes_on && !goes_on()) return false;
      std::erase_if(works, [&](const auto& each) { return each->block == *here_ && go_on(*each); });
    }
  }
  return true;
}

int64_t BlockByBlock::most_at_once() const { return std::clamp<int64_t>(kBytesAtWork / most_bytes_, 1, kMostAtWork); }

/// Has works come as far as their first block. Those that run none are done.
std::vector<std::unique_ptr<BlockByBlock::Work>> BlockByBlock::begin(int64_t& next, int64_t count,
                                                                     const std::function<void(int64_t)>& work) {
  std::vector<std::unique_ptr<Work>> works;
  for (int64_t num_bytes = 0; next < count && num_bytes < kBytesAtWork && std::ssize(works) < kMostAtWork;) {
    auto begun = std::make_unique<Work>();
    begun->fiber = std::make_unique<Fiber>([&work, number = next++] { work(number); });
    if (go_on(*begun)) continue;
    num_bytes += begun->num_bytes;
    most_bytes_ = std::max(most_bytes_, begun->num_bytes);
    works.push_back(std::move(begun));
  }
  return works;
}

/// Returns whether the work is done.
bool BlockByBlock::go_on(Work& work) {
  struct Turn {
    BlockByBlock& all;
    ~Turn() { all.at_work_ = nullptr; }
  } turn{*this};
  at_work_ = &work;
  return work.fiber->go_on();
}

void BlockByBlock::bring(size_t number) {
  if (here_ == number) return;
  if (here_) weights_->give_up(*here_);
  here_ = number;
  weights_->read(number);
}

}  // namespace burnish::models
