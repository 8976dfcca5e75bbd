#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace burnish::test {

/// A server on loopback that answers each connection with the bytes that a function makes of the request, good HTTP or not, and closes it.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<std::string(const std::string& request)> answer) : answer_(std::move(answer)) {
    socket_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(socket_, 64);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) { serve(stop); });
  }
  ~ScriptedServer() {
    thread_.request_stop();
    thread_.join();
    close(socket_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// While a request is answered: whether another connection comes within that time, to be answered after it.
  bool is_another_waiting(int milliseconds) const {
    pollfd waiting{socket_, POLLIN, 0};
    return poll(&waiting, 1, milliseconds) > 0;
  }
  /// All requests so far.
  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waiting{socket_, POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      auto connection = accept(socket_, nullptr, nullptr);
      if (connection < 0) continue;
      std::string request;
      char part[4096];
      while (request.find("\r\n\r\n") == request.npos) {
        auto n = recv(connection, part, sizeof part, 0);
        if (n <= 0) break;
        request.append(part, static_cast<size_t>(n));
      }
      if (request.find("\r\n\r\n") == request.npos) {  // one who asks several at once and has the first answer leaves without a word
        close(connection);
        continue;
      }
      const auto length = request.find("Content-Length: ");
      const auto whole = request.find("\r\n\r\n") + 4 + (length == request.npos ? 0 : std::stoul(request.substr(length + 16)));
      while (request.size() < whole) {
        auto n = recv(connection, part, sizeof part, 0);
        if (n <= 0) break;
        request.append(part, static_cast<size_t>(n));
      }
      std::string bytes;
      {
        std::lock_guard lock(mutex_);
        requests_.push_back(request);
        bytes = answer_(request);
      }
      for (size_t sent = 0; sent < bytes.size();) {
        auto n = send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      shutdown(connection, SHUT_WR);
      close(connection);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int socket_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

/// An answer of HTTP with the length that its body has, or that is claimed.
inline std::string http(int status, const std::string& body, const std::string& more_headers = "", int64_t claimed = -1) {
  auto length = claimed >= 0 ? claimed : static_cast<int64_t>(body.size());
  return "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: " + std::to_string(length) + "\r\nConnection: close\r\n" +
         more_headers + "\r\n" + body;
}

/// The first byte that a request asks for; -1 when it asks for all.
inline int64_t asked_from(const std::string& request) {
  auto at = request.find("Range: bytes=");
  return at == request.npos ? -1 : std::stoll(request.substr(at + 13));
}

/// The rest of a file from a byte on, as servers answer to a range.
inline std::string rest(const std::string& file, int64_t from, const std::string& more_headers = "") {
  return http(206, file.substr(static_cast<size_t>(from)),
              "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(file.size() - 1) + "/" + std::to_string(file.size()) +
                  "\r\n" + more_headers);
}

}  // namespace burnish::test
