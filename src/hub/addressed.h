#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hub/settings.h"

namespace burnish::hub {

/// A dataset that lies at addresses of its own, on no hub: s3://BUCKET/PREFIX, what a bucket has below a prefix; http(s)://…/NAME.txt, a
/// list with an address a line, and a caption behind a tab or blanks; http(s)://…/NAME.tar or .parquet, an archive; and of S3 or HTTP
/// archives of counted names: …/{000..099}.tar.
struct AddressedDataset {
  std::string text = {};                ///< as it was given
  std::vector<std::string> files = {};  ///< addresses of archives, where these are named
  bool is_list = false;                 ///< whether the address is that of a list
  bool is_prefix = false;               ///< whether it names what is below a prefix of a bucket
};
/// Reads an address; nothing of a text that begins otherwise. A config Error for one that is none of these.
std::optional<AddressedDataset> addressed_dataset(const std::string& text);

/// The folder where such datasets lie, and how much of the disk they may take together.
struct DatasetRoom {
  std::filesystem::path folder;
  int64_t most_bytes = -1;  ///< -1: all that there is
};
/// Reads BURNISH_DATASETS (without it a folder below XDG_CACHE_HOME or ~/.cache) and BURNISH_DATASETS_SIZE, as 200GiB.
DatasetRoom dataset_room_from_environment();

/// Makes the dataset's files be in a folder of its own and returns where they lie: a file, or that folder. What is there is fetched again
/// where its ETag or size changed, as far as a bucket lists them, and deleted where it is listed no more. To stay within the room datasets
/// are deleted that were not asked for the longest, but for those that a process uses. A data Error for what cannot be fetched, or is
/// larger than the room; what came is kept and gone on with next time.
std::filesystem::path fetch_addressed(const AddressedDataset& dataset, const Settings& settings, const DatasetRoom& room);

/// Writes a name for each number of "{000..099}" in an address, with as many digits as the first one has; one without braces stays. A
/// config Error for other braces.
std::vector<std::string> counted_names(const std::string& text);

}  // namespace burnish::hub
