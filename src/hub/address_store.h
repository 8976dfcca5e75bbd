#pragma once
#include <filesystem>
#include <string>

#include "hub/store.h"

namespace burnish::hub {

/// The folder of a dataset that lies at an address: `files/` with what is trained on, `listing.json` and `tags/`, what tells its versions
/// apart; `used` is held as long as the process lives, and newer than those of datasets that were asked for before.
class AddressStore final : public Store {
 public:
  /// Where `lists_from_here` is set, what was listed last is the listing, and nobody is asked.
  AddressStore(std::filesystem::path folder, bool lists_from_here);

  std::filesystem::path folder() const override { return folder_ / "files"; }
  std::optional<Listing> listing() const override;
  void keep(const Listing& listing) override;
  bool has(const RemoteFile& file) override;
  std::filesystem::path partial(const RemoteFile& file) const override;
  void place(const RemoteFile& file, PartialFile& partial) override;

  /// Deletes files that are not among these.
  void keep_only(const Listing& listing, const std::vector<std::string>& further) const;

 private:
  std::filesystem::path tag_path(const RemoteFile& file) const;

  std::filesystem::path folder_;
  bool lists_from_here_;
};

/// Deletes datasets below a folder, those first that were used the longest ago, until all take `num_bytes` at most; never `own`, nor one
/// that a process uses. Returns the bytes that are left.
int64_t make_room(const std::filesystem::path& folder, int64_t num_bytes, const std::filesystem::path& own);

}  // namespace burnish::hub
