#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "remote/host.h"

namespace burnish::remote {

/// A run on another machine, in a folder of its own there: settings.toml, files/ with what they name, run/ with what comes of it, and the
/// log. Its process belongs to no terminal and to no line, so that it goes on whatever happens here.
class Job {
 public:
  /// `folder` is seen from the home folder there; `program` is the burnish that runs.
  Job(const Host& host, std::string folder, std::string program) : host_(&host), folder_(std::move(folder)), program_(std::move(program)) {}

  /// The job stands at one of these.
  enum class State {
    none,     ///< nothing was started
    running,  ///< its process is there
    ended,    ///< it ended by itself
    gone      ///< its process is not there, and said nothing: the machine was restarted, or it was killed
  };
  struct Standing {
    State state = State::none;
    int exit_code = 0;     ///< of one that ended
    std::string log = {};  ///< what its log has behind the bytes that were seen
  };

  const std::string& folder() const { return folder_; }
  /// Asks where it stands; `seen`: bytes of its log that are known. Nothing where the line is lost.
  std::optional<Standing> standing(size_t seen) const;
  /// Starts it with settings that lie there as settings.new.toml; from a state of an earlier start it goes on. Nothing is started where one
  /// with these settings ended well.
  void start() const;
  /// Has its process end after its step, everything saved. False where none is there.
  bool stop() const;
  /// Follows it to its end: hands on what its log says, and keeps its small files in `to` like those of a run here. When it has ended all
  /// its files are there but its state. A lost line is waited for. Returns its exit code, or nothing where `leaves` told to leave it.
  std::optional<int> follow(const std::filesystem::path& to, std::chrono::milliseconds every,
                            const std::function<void(const std::string&)>& say, const std::function<bool()>& leaves) const;

 private:
  const Host* host_;
  std::string folder_, program_;
};

}  // namespace burnish::remote
