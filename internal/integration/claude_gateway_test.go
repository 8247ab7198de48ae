// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// The tests in this file have the rows of the table in docs/guides/claude-code.md.

const gatewayBeta = "request-tags-2026-08-21"

// TestClaudeGatewayUnknown: what a newer client sends reaches the provider as it is.
func TestClaudeGatewayUnknown(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	body := strings.Replace(conversation(1, false), `{"model"`,
		`{"later_member":{"a":[1]},"tags":{"team":"web"},"safeguards":{"mode":"x"},"model"`, 1)
	res := p.post("/v1/messages", body, "X-Api-Key", "k", "Anthropic-Beta", gatewayBeta+",later-2027-01-01", "X-Later", "1")
	if got := u.last(); res.StatusCode != http.StatusOK || got.body != body || got.header.Get("X-Later") != "1" ||
		got.header.Get("Anthropic-Beta") != gatewayBeta+",later-2027-01-01" {
		t.Errorf("got %s; sent %v %s", res.Status, got.header, got.body)
	}
}

// TestClaudeGatewayTags: Bedrock and Vertex AI get neither tags nor their beta value.
func TestClaudeGatewayTags(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	tagged := func(body string) string { return strings.Replace(body, `{"`, `{"tags":{"team":"web"},"`, 1) }
	for name, c := range elsewhere {
		plain := elsewhereConversation(1, c.version)
		body := strings.Replace(tagged(plain), `"max_tokens"`,
			`"anthropic_beta":["effort-2025-11-24","`+gatewayBeta+`"],"max_tokens"`, 1)
		res := p.post(c.whole, body, "Authorization", "Bearer k", "Anthropic-Beta", "effort-2025-11-24, "+gatewayBeta)
		want := strings.Replace(plain, `"max_tokens"`, `"anthropic_beta":["effort-2025-11-24"],"max_tokens"`, 1)
		if got := u.last(); res.StatusCode != http.StatusOK || got.body != want ||
			got.header.Get("Anthropic-Beta") != "effort-2025-11-24" {
			t.Errorf("%s: got %s; sent %q %s, want %s", name, res.Status, got.header["Anthropic-Beta"], got.body, want)
		}
	}
	p.reload("rewrite /v1/messages* /anthropic{uri}\nllm_cache\nreverse_proxy " + u.Listener.Addr().String())
	res := p.post("/v1/messages", tagged(conversation(1, false)), "X-Api-Key", "k", "Anthropic-Beta", gatewayBeta)
	if got := u.last(); res.StatusCode != http.StatusOK || got.body != conversation(1, false) ||
		len(got.header["Anthropic-Beta"]) > 0 {
		t.Errorf("Messages at Bedrock: got %s; sent %q %s", res.Status, got.header["Anthropic-Beta"], got.body)
	}
}

// TestClaudeGatewaySafeguards: an upstream of another API gets no request with safeguards, which it
// would not run: the client is told by a 400 that names them.
func TestClaudeGatewaySafeguards(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\nupstream openai\n}\nreverse_proxy "+u.Listener.Addr().String())
	body := strings.Replace(conversation(1, false), `{"model"`, `{"safeguards":{"mode":"x"},"model"`, 1)
	res := p.post("/v1/messages", body, "X-Api-Key", "k")
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || len(u.requests()) > 0 ||
		gjson.Get(got, "error.type").Str != "invalid_request_error" ||
		!strings.Contains(gjson.Get(got, "error.message").Str, "safeguards") {
		t.Errorf("got %s: %s", res.Status, got)
	}
}

// TestClaudeGatewayErrors: errors have Anthropic's envelope and types, the provider's as well as those of
// an upstream with another API and our own.
func TestClaudeGatewayErrors(t *testing.T) {
	status := 0
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
	})
	p := start(t, "llm_cache {\nupstream openai\nmax_body 10KB\n}\nreverse_proxy "+u.Listener.Addr().String())
	for given, want := range map[int]struct {
		kind   string
		status int
	}{
		400: {"invalid_request_error", 400}, 401: {"authentication_error", 401}, 403: {"permission_error", 403},
		404: {"not_found_error", 404}, 429: {"rate_limit_error", 429}, 500: {"api_error", 500}, 413: {"request_too_large", 413},
	} {
		status = given
		res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "k")
		if body := read(t, res); res.StatusCode != want.status || gjson.Get(body, "type").Str != "error" ||
			gjson.Get(body, "error.type").Str != want.kind || given == 429 && res.Header.Get("Retry-After") != "7" {
			t.Errorf("upstream's %d: got %s %s, want %d %s", given, res.Status, body, want.status, want.kind)
		}
	}
	res := p.post("/v1/messages", conversation(20, false), "X-Api-Key", "k")
	if body := read(t, res); res.StatusCode != http.StatusRequestEntityTooLarge ||
		gjson.Get(body, "error.type").Str != "request_too_large" {
		t.Errorf("a long body: got %s %s", res.Status, body)
	}
}

// capHeaders are the headers about caps in an answer, without their common part.
func capHeaders(h http.Header) map[string]string {
	all := map[string]string{}
	for name := range h {
		if rest, is := strings.CutPrefix(name, "Anthropic-Ratelimit-"); is {
			all[strings.TrimPrefix(rest, "Unified-")] = h.Get(name)
		}
	}
	return all
}

// TestClaudeGatewayCap: each successful answer tells a user with a cap how much of it is spent, and no
// other user anything; GET /api/oauth/usage has the dollars; and the cap, once reached, is told as Claude
// Code wants it.
func TestClaudeGatewayCap(t *testing.T) {
	upstreams := map[string]string{
		"Anthropic-Ratelimit-Requests-Remaining": "9", "Anthropic-Ratelimit-Unified-Status": "allowed",
		"Anthropic-Ratelimit-Unified-5h-Utilization": "0.5",
	}
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "the provider's")
			return
		}
		for name, value := range upstreams {
			w.Header().Set(name, value)
		}
		if r.Header.Get("X-Do") == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Join(events, ""))
			return
		}
		answerMessage(w, r, n)
	})
	p := start(t, "respond 204")
	p.budgeted(u, sqliteAt(filepath.Join(t.TempDir(), "audit.db"), ""),
		`{"name":"anna","budgets":[{"dollars":0.01,"per":"month"}]},{"name":"*","budgets":[{"dollars":100,"soft":true}]}`)
	post := func(key string, headers ...string) response {
		return p.post("/v1/messages", conversation(1, false), append([]string{"X-Api-Key", key, "X-Session-Id", "s"},
			headers...)...)
	}
	now := time.Now()
	ends := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.Local)
	resets := strconv.FormatInt(ends.Unix(), 10)
	allowed := func(utilization, surpassed string) map[string]string {
		want := map[string]string{
			"Status": "allowed", "Representative-Claim": "overage", "Overage-Status": "allowed",
			"Overage-Utilization": utilization, "Reset": resets, "Overage-Reset": resets,
		}
		if surpassed != "" {
			want["Status"], want["Overage-Status"], want["Overage-Surpassed-Threshold"] = "allowed_warning", "allowed_warning",
				surpassed
		}
		return want
	}
	usage := func(key string) (int, string) {
		return p.do(http.MethodGet, "/api/oauth/usage", "Authorization", "Bearer "+key)
	}
	// A request is $0.001007. The cost of an answer in one piece is in its headers, that of a stream is not.
	res := post("sk-anna", "X-Do", "stream")
	read(t, res)
	if got := capHeaders(res.Header); !maps.Equal(got, allowed("0.00", "")) {
		t.Errorf("stream: got %v, want %v", got, allowed("0.00", ""))
	}
	for n, want := range []map[string]string{
		allowed("0.20", ""), allowed("0.30", ""), allowed("0.40", ""), allowed("0.50", ""),
		allowed("0.60", ""), allowed("0.70", ""), allowed("0.80", "0.75"), allowed("0.90", "0.75"), allowed("0.99", "0.95"),
	} {
		res := post("sk-anna")
		if got := capHeaders(res.Header); res.StatusCode != http.StatusOK || !maps.Equal(got, want) {
			t.Errorf("answer %d: got %s %v, want %v", n+1, res.Status, got, want)
		}
		read(t, res)
		if n == 6 {
			status, got := usage("sk-anna")
			want := `{"extra_usage":{"is_enabled":true,"monthly_limit":1,"used_credits":0,"utilization":81,"currency":"USD"},` +
				`"limits":[{"kind":"spend","group":"monthly","percent":81,"resets_at":"` +
				ends.UTC().Format("2006-01-02T15:04:05.000Z") + `","severity":"warning","is_active":true}]}`
			if status != http.StatusOK || got != want {
				t.Errorf("usage: got %d %s, want %s", status, got, want)
			}
		}
	}

	res = post("sk-anna")
	want := map[string]string{
		"Status": "rejected", "Reset": resets, "Overage-Reset": resets, "Overage-Utilization": "1",
		"Overage-Surpassed-Threshold": "1", "Overage-Period": "monthly", "Overage-Disabled-Reason": "org_spend_cap_reached",
	}
	after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	if body, got := read(t, res), capHeaders(res.Header); res.StatusCode != http.StatusTooManyRequests ||
		!maps.Equal(got, want) || gjson.Get(body, "error.type").Str != "billing_error" ||
		res.Header.Get("X-Should-Retry") != "false" || (time.Duration(after)*time.Second-time.Until(ends)).Abs() > time.Minute ||
		!strings.Contains(gjson.Get(body, "error.message").Str, "begins anew on "+ends.Format("Mon 2 Jan 2006")) {
		t.Errorf("spent: got %s %v %s", res.Status, res.Header, body)
	}

	// Soft budgets refuse nothing, so that they are no cap.
	for _, key := range []string{"sk-ben", ""} {
		res := post(key)
		got := slices.Sorted(maps.Keys(capHeaders(res.Header)))
		if want := []string{"5h-Utilization", "Requests-Remaining", "Status"}; !slices.Equal(got, want) {
			t.Errorf("without a cap: got %v, want the upstream's, %v", got, want)
		}
		if status, got := usage("sk-ben"); status != http.StatusOK || got != "the provider's" {
			t.Errorf("usage without a cap: got %d %s", status, got)
		}
	}
	chat := `{"model":"claude-opus-4-6","messages":[{"role":"user","content":"hi"}]}`
	if got := capHeaders(p.post("/v1/chat/completions", chat, "Authorization", "Bearer sk-carla").Header); len(got) != 3 {
		t.Errorf("another API: got %v", got)
	}
}

// TestClaudeGatewayUncounted: while the record fails that budgets are counted by, and the operator wants
// no request then, Claude Code ends with a message. Without budgets and in other APIs clients try again.
func TestClaudeGatewayUncounted(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.budgeted(u, `{"module":"shaky_source","interval":10000000,"on_error":"refuse"}`, `{"name":"*","budgets":[{"dollars":100}]}`)
	shaky.Store(true)
	t.Cleanup(func() { shaky.Store(false) })
	read(t, p.post("/v1/messages", conversation(1, false), "X-Api-Key", "k")) // which finds out
	until(t, "the store is found to fail", func() bool { return p.metric("caddy_llm_cache_audit_failing") == 1 })
	res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "k")
	want := map[string]string{"Overage-Disabled-Reason": "fetch_error"}
	if body, got := read(t, res), capHeaders(res.Header); res.StatusCode != http.StatusTooManyRequests ||
		!maps.Equal(got, want) || res.Header.Get("X-Should-Retry") != "false" || res.Header.Get("Retry-After") != "" ||
		gjson.Get(body, "error.type").Str != "billing_error" {
		t.Errorf("got %s %v %s", res.Status, res.Header, body)
	}
	chat := `{"model":"claude-opus-4-6","messages":[{"role":"user","content":"hi"}]}`
	if res := p.post("/v1/chat/completions", chat, "X-Api-Key", "k"); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("another API: got %s %v", res.Status, res.Header)
	}
}

// shakySource is shakyAudit that can be read again, and has no records.
type shakySource struct{ shakyAudit }

func init() { caddy.RegisterModule(shakySource{}) }

func (shakySource) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.shaky_source", New: func() caddy.Module { return new(shakySource) }}
}

func (s *shakySource) Open() (audit.Store, error) { return s, nil }

func (*shakySource) Each(context.Context, time.Time, func(*audit.Record) error) error { return nil }
