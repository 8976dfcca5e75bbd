#include "train/paged_loading.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/blocks_on_disk.h"

namespace burnish::train {

std::shared_ptr<memory::Pager> load_paged(models::Model& model, const std::string& part, const PagedBlocks& paged,
                                          std::shared_ptr<memory::HostStore> host, c10::Device device) {
  const auto on_disk = memory::paged_blocks(paged.waiting, paged.on_disk);
  std::optional<BlocksInFiles> files;
  if (!on_disk.empty()) files.emplace(model.components(), part);
  auto pager = std::make_shared<memory::Pager>(std::move(host), device);
  auto runner = pager->runner();
  model.components().load(part, [&](const std::vector<nn::Block*>& blocks) {
    if (paged.waiting > std::ssize(blocks))
      config_error("train", "blocks_to_swap {} is more than the {} blocks that {} runs; lower it", paged.waiting, blocks.size(), part);
    const auto numbers = memory::paged_blocks(std::ssize(blocks), paged.waiting);
    for (int64_t i = 0; i < paged.waiting; ++i) {
      const auto number = static_cast<size_t>(numbers[static_cast<size_t>(i)]);
      auto& block = *blocks[number];
      pager->take(block, std::ranges::binary_search(on_disk, i) ? files->of(number) : memory::InFile());
      block.runner = runner;
    }
  });
  pager->make_places();
  info("{} blocks of {} wait in main memory: {}, of which {} at a time are on the device", paged.waiting, part,
       human_bytes(static_cast<double>(pager->num_waiting_bytes() - pager->num_file_bytes())),
       human_bytes(static_cast<double>(pager->num_device_bytes())));
  if (files) info("and {} of them in their file: {}", on_disk.size(), human_bytes(static_cast<double>(pager->num_file_bytes())));
  return pager;
}

}  // namespace burnish::train
