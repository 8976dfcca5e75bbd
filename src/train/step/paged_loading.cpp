#include "train/step/paged_loading.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/step/blocks_on_disk.h"

namespace burnish::train {

namespace {

void check_number(const char* option, int64_t number, const std::vector<nn::Block*>& blocks, const std::string& part) {
  if (number > std::ssize(blocks))
    config_error("train", "{} {} is more than the {} blocks that {} runs; lower it", option, number, blocks.size(), part);
}

}  // namespace

std::shared_ptr<memory::Pager> load_paged(models::Model& model, const std::string& part, const PagedBlocks& paged,
                                          std::shared_ptr<memory::HostStore> host, c10::Device device) {
  std::optional<BlocksInFiles> files;
  if (paged.on_disk > 0) files.emplace(model.components(), part);
  auto pager = std::make_shared<memory::Pager>(std::move(host), device);
  auto runner = pager->runner();
  auto num_paged = paged.waiting;
  model.components().load(part, [&](const std::vector<nn::Block*>& blocks) {
    if (num_paged == kAllBlocks) num_paged = std::ssize(blocks);
    check_number("blocks_to_swap", num_paged, blocks, part);
    check_number("blocks_on_disk", paged.on_disk, blocks, part);
    const auto numbers = memory::paged_blocks(std::ssize(blocks), num_paged), on_disk = memory::paged_blocks(num_paged, paged.on_disk);
    for (int64_t i = 0; i < num_paged; ++i) {
      const auto number = static_cast<size_t>(numbers[static_cast<size_t>(i)]);
      auto& block = *blocks[number];
      pager->take(block, std::ranges::binary_search(on_disk, i) ? files->of(number) : memory::InFile());
      block.runner = runner;
    }
  });
  pager->make_places();
  if (paged.waiting == kAllBlocks) info("enable_model_cpu_offload is blocks_to_swap {} of this model", num_paged);
  info("{} blocks of {} wait in main memory: {}, of which {} at a time are on the device", num_paged, part,
       human_bytes(static_cast<double>(pager->num_waiting_bytes() - pager->num_file_bytes())),
       human_bytes(static_cast<double>(pager->num_device_bytes())));
  if (files) info("and {} of them in their file: {}", paged.on_disk, human_bytes(static_cast<double>(pager->num_file_bytes())));
  return pager;
}

}  // namespace burnish::train
