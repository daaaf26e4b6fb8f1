// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveServer: programs that are recorded, over HTTP on 127.0.0.1: a page that keeps up with them, and numbers for
// Prometheus. It only reads, and answers only who has the token (access.h). One thread answers; a LiveWorker follows
// the traces, a PageMaker makes the page's data.
//
//   /          the page of `gpumemshim html`, which then asks for the rest
//   /data      its data: what `gpumemshim html --json` says, made anew while the program runs; with ?events=FROM-UNTIL
//              as its flag --events, made for who asks
//   /events    server-sent events: "frame" with the object of `gpumemshim live --json`, "page" where /data is newer
//   /live      the newest frame alone
//   /metrics   text exposition (live_metrics.h)
//
//   GPUMEM_ASSIGN_OR_RETURN(auto server, LiveServer::Listen(options, &worker, &maker, &events));
//   Print(server->Address());                  // "http://127.0.0.1:41234/?token=5f0c..."
//   GPUMEM_RETURN_IF_ERROR(server->Serve());   // until SIGINT or SIGTERM

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_LIVE_SERVER_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_LIVE_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "live/live_job.h"
#include "live/serve/page_maker.h"

namespace gpumem {

class LiveServer {
 public:
  struct Options {
    uint16_t port = 0;  // 0 = a free one
    std::string token;
    std::string language = "en";  // that the page opens in
  };
  // `maker` makes the page's data, `events` those of single events. Errors: the port is taken. The worker and the
  // makers must outlive the server.
  static absl::StatusOr<std::unique_ptr<LiveServer>> Listen(const Options& options, const LiveWorker* worker,
                                                            PageMaker* maker, PageMaker* events);
  virtual ~LiveServer() = default;

  virtual uint16_t port() const = 0;
  // With the token.
  virtual std::string Address() const = 0;
  // Answers until SIGINT or SIGTERM comes, or Stop was called.
  virtual absl::Status Serve() = 0;
  // From any thread.
  virtual void Stop() = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_LIVE_SERVER_H_
