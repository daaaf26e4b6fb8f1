// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_urls.h"

namespace gpumem::format {
namespace {

constexpr size_t kMaxUserInfo = 512;
constexpr size_t kMaxHost = 253;  // RFC 1035

// Addresses that are their own password. A host is matched at its end; an empty one is any.
struct Webhook {
  const char* host;
  const char* path;
};

constexpr Webhook kWebhooks[] = {
    {"hooks.slack.com", "/"},
    {"discord.com", "/api/webhooks/"},
    {"discordapp.com", "/api/webhooks/"},
    {"webhook.office.com", "/"},
    {"outlook.office.com", "/webhook/"},
    {"outlook.office365.com", "/webhook/"},
    {"logic.azure.com", "/"},
    {"powerplatform.com", "/"},
    {"api.telegram.org", "/bot"},
    {"hooks.zapier.com", "/"},
    {"maker.ifttt.com", "/"},
    {"open.feishu.cn", "/open-apis/bot/"},
    {"open.larksuite.com", "/open-apis/bot/"},
    {"hc-ping.com", "/"},
    {"ntfy.sh", "/"},
    {"api.day.app", "/"},
    {"webhook.site", "/"},
    {"anaconda.org", "/t/"},
    {"make.com", "/"},
    {"integromat.com", "/"},
    {"m.pipedream.net", "/"},
    {"events.pagerduty.com", "/integration/"},
    {"alert.victorops.com", "/integrations/"},
    {"uptime.betterstack.com", "/api/v1/heartbeat/"},
    {"cronitor.link", "/"},
    {"webhooks.workato.com", "/"},
    {"push.techulus.com", "/api/v1/notify/"},
    {"api.pushcut.io", "/"},
    {"hooks.airtable.com", "/"},
    {"sctapi.ftqq.com", "/"},
    {"", "/hooks/"},
    {"", "/webhook/"},
    {"", "/webhooks/"},
    {"", "/api/webhooks/"},
};

bool EndsUrl(char c) { return IsBlank(c) || IsQuote(c) || c == '\\' || c == '<' || c == '>' || c == '|'; }

bool IsHostChar(char c) { return IsAlnum(c) || c == '.' || c == '-' || c == ':'; }

}  // namespace

size_t UrlSize(Slice text) {
  return Span(text, [](char c) { return !EndsUrl(c); });
}

size_t UserInfoSize(Slice text) {
  const Slice url = text.Until(kMaxUserInfo).Until(UrlSize(text.Until(kMaxUserInfo)));
  const size_t authority = Span(url, [](char c) { return c != '/' && c != '?' && c != '#'; });
  for (size_t i = authority; i > 0; --i) {
    if (url[i - 1] == '@') return i - 1;
  }
  // A password may hold a slash; what stands behind a colon otherwise is a port.
  const size_t colon = url.Until(authority).Find(':');
  const Slice behind = url.Until(authority).From(colon + 1);
  if (colon == authority || behind.empty() || Span(behind, IsDigit) == behind.size) return 0;
  const size_t at = url.Find('@', authority);
  return at == url.size ? 0 : at;
}

size_t WebhookSecretAt(Slice text) {
  const Slice authority = text.Until(Span(text.Until(kMaxHost + 1), IsHostChar));
  const Slice host = authority.Until(authority.Find(':'));
  const Slice path = text.From(authority.size);
  if (host.empty() || path[0] != '/') return 0;
  for (const Webhook& each : kWebhooks) {
    const size_t size = std::strlen(each.host);
    const bool is_host =
        host.EndsWithIgnoringCase(each.host) && (size == 0 || size == host.size || host[host.size - size - 1] == '.');
    if (is_host && path.StartsWithIgnoringCase(each.path)) return authority.size + std::strlen(each.path);
  }
  return 0;
}

}  // namespace gpumem::format
