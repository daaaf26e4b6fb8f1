// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "base/phrases.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/symbol_flags.h"
#include "live/live_job.h"
#include "live/serve/access.h"
#include "live/serve/live_server.h"
#include "live/serve/page_maker.h"

namespace gpumem {
namespace {

constexpr double kLeastPageInterval = 0.1, kMostPageInterval = 3600;
constexpr std::chrono::seconds kFirstFrame{10};  // who asks at once finds numbers
constexpr int kMostPort = 65'535;

constexpr std::chrono::milliseconds kNextLook(500);

class ServeCommand final : public Command {
 public:
  absl::string_view name() const override { return "serve"; }
  CommandPlace place() const override { return {CommandGroup::kLive, 2}; }
  absl::string_view summary() const override { return "the page of running programs, kept up to date; Prometheus"; }
  absl::string_view arguments() const override { return "[FLAGS] [PID|FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Shows running programs in a browser: what they hold now, and below it the page of gpumemshim html, drawn anew as the
traces grow. /metrics is for Prometheus. It listens on 127.0.0.1 alone, reads traces and nothing else, changes
nothing, and answers only who has the token that is part of the address. From another machine:
ssh -L PORT:127.0.0.1:PORT HOST. Ctrl-C ends it.
Without an argument: the newest trace here whose program runs, else the newest one. Of a DIR: all its processes.
Where there is no trace yet, the first one is waited for.

  gpumemshim serve
  gpumemshim serve 4242                                a recorded process, or the gpumemshim run that started it
  gpumemshim serve runs/ --port 9464 --token-file T    for Prometheus: always the same port and token
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("--port", &port_, "where to listen on 127.0.0.1; 0 = a free port (0)").Value("N").Between(0, kMostPort);
    flags
        ->Add("--token-file", &token_file_,
              "take the token from this file; it is made where it is absent (a new token)")
        .Value("FILE");
    flags->Add("--interval", &interval_, "seconds from frame to frame (1)").Value("SECONDS");
    flags->Add("--json", &json_, "print address, port and token as one JSON object");
    symbols_.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (!(interval_ >= kLeastPageInterval && interval_ <= kMostPageInterval))
      return absl::InvalidArgumentError("--interval takes 0.1 to 3600 seconds.");
    LiveJob::Options options;
    GPUMEM_ASSIGN_OR_RETURN(options.symbols, symbols_.Options());
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LiveJob> job,
                            OpenWhenThere(arguments.empty() ? "" : arguments[0], options, console));
    LiveServer::Options where;
    where.port = static_cast<uint16_t>(port_);
    where.token = NewToken();
    where.language = std::string(LanguageOf(console->out_style().phrases));
    if (!token_file_.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(where.token, TokenOfFile(token_file_));
    }
    const LiveWorker worker(job.get(), std::chrono::milliseconds(static_cast<int64_t>(interval_ * 1000)));
    PageMaker maker(PageCommand()), events(PageCommand());
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LiveServer> server,
                            LiveServer::Listen(where, &worker, &maker, &events));
    worker.WaitFor(0, kFirstFrame);
    Announce(*server, where.token, console);
    GPUMEM_RETURN_IF_ERROR(server->Serve());
    return kExitFine;
  }

 private:
  // Of a folder without a trace the first one is waited for: whoever opens the page before the program starts sees it
  // begin. Ctrl-C ends it.
  static absl::StatusOr<std::unique_ptr<LiveJob>> OpenWhenThere(const std::string& place,
                                                                const LiveJob::Options& options, Console* console) {
    std::error_code ignored;
    const bool waits = place.empty() || std::filesystem::is_directory(place, ignored);
    for (bool is_first = true;; is_first = false) {
      absl::StatusOr<std::unique_ptr<LiveJob>> job = LiveJob::Open(place, options);
      if (job.ok() || !waits || !absl::IsNotFound(job.status())) return job;
      if (is_first)
        console->Complain(absl::StrCat("no trace in ", place.empty() ? "the working directory" : place,
                                       " yet: waiting for the first one, of gpumemshim run -- python train.py"));
      std::this_thread::sleep_for(kNextLook);
    }
  }

  std::vector<std::string> PageCommand() const {
    std::vector<std::string> command = {"/proc/self/exe", "html", "--json"};
    if (symbols_.no_native_symbols) command.emplace_back("--no-native-symbols");
    for (const std::string& place : symbols_.symbols) command.insert(command.end(), {"--symbols", place});
    if (!symbols_.sysroot.empty()) command.insert(command.end(), {"--sysroot", symbols_.sysroot});
    return command;
  }

  void Announce(const LiveServer& server, const std::string& token, Console* console) const {
    if (!json_) {
      console->Say(absl::StrCat(server.Address(), "\nOpen it in a browser on this machine. Ctrl-C ends it.\n"));
    } else {
      std::string text;
      JsonWriter json(&text);
      json.BeginObject(JsonLayout::kOneLine);
      json.Field("schema_version", kJsonSchemaVersion);
      json.Field("command", "serve");
      json.Field("address", server.Address());
      json.Field("port", server.port());
      json.Field("token", token);
      json.EndObject();
      console->Print(text + "\n");
    }
  }

  int port_ = 0;
  double interval_ = 1;
  std::string token_file_;
  bool json_ = false;
  SymbolFlags symbols_;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() { return std::make_unique<ServeCommand>(); }

}  // namespace gpumem
