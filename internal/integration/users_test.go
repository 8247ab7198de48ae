// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// withUsers loads a site with an audit store, and members of the app in JSON.
func (p *proxy) withUsers(u *upstream, members string) {
	p.t.Helper()
	p.move()
	p.usersOn(u, sqliteAt(filepath.Join(p.t.TempDir(), "audit.db"), ""), members)
}

// usersOn loads a site with an audit store and users, given in JSON.
func (p *proxy) usersOn(u *upstream, store, members string) {
	p.t.Helper()
	p.load([]byte(strings.Replace(string(p.auditing(plain(u), store)), `"llm_cache":{`, `"llm_cache":{`+members+`,`, 1)))
}

// apis has a request in each format, of a model claude-opus-4-6, and where its errors have their kind.
var apis = []struct{ path, body, kindAt string }{
	{
		"/v1/messages", `{"model":"claude-opus-4-6","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"error.type",
	},
	{"/v1/chat/completions", `{"model":"claude-opus-4-6","messages":[{"role":"user","content":"hi"}]}`, "error.type"},
	{"/v1/responses", `{"model":"claude-opus-4-6","store":false,"input":"hi"}`, "error.type"},
	{
		"/v1beta/models/claude-opus-4-6:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"error.status",
	},
}

// refusedAs checks an error of ours in the words of an API.
func refusedAs(t *testing.T, res response, status int, kindAt, kind, says string) {
	t.Helper()
	body := read(t, res)
	message := gjson.Get(body, "error.message").Str
	if res.StatusCode != status || gjson.Get(body, kindAt).Str != kind || !strings.Contains(message, says) {
		t.Errorf("got %s: %s, want %d %s that says %q", res.Status, body, status, kind, says)
	}
}

// TestUsersRequired: with `users require` strangers get a 401 in the words of their API, whatever they ask
// for, and nothing of theirs reaches the upstream. Configured and authenticated users pass.
func TestUsersRequired(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.withUsers(u, `"require_users":true,"users":[{"name":"anna","keys":["sk-anna"]},`+
		`{"name":"{http.request.header.X-User}"}]`)
	kinds := []string{"authentication_error", "invalid_request_error", "invalid_request_error", "UNAUTHENTICATED"}
	for i, api := range apis {
		for _, key := range []string{"sk-ben", ""} {
			res := p.post(api.path, api.body, "Authorization", "Bearer "+key)
			if res.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s may be tried again", api.path)
			}
			refusedAs(t, res, http.StatusUnauthorized, api.kindAt, kinds[i], "of this gateway")
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/messages/count_tokens", "/v1/files", "/anything"} {
		if res := p.post(path, `{"input":"hi"}`, "X-Api-Key", "sk-ben"); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("%d requests of strangers reached the upstream", n)
	}
	for _, known := range [][]string{{"X-Api-Key", "sk-anna"}, {"X-User", "carla", "X-Api-Key", "shared"}} {
		if res := p.post("/v1/messages", conversation(1, false), known...); res.StatusCode != http.StatusOK {
			t.Errorf("%v: %s", known, res.Status)
		}
	}
	if n := p.metric(`caddy_llm_cache_requests_total{outcome="unknown_user",policy="cost_aware"}`); n != 12 {
		t.Errorf("%v strangers are counted, want 12", n)
	}
}

// TestModelsOfUsers: a user may use the models of the user, or else of the groups, or else of everybody.
// Others get a 403 in the words of their API, and so do requests whose model cannot be read.
func TestModelsOfUsers(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.withUsers(u, `"users":[{"name":"anna","keys":["sk-anna"],"models":["gpt-*"]},`+
		`{"name":"ben","keys":["sk-ben"],"groups":["web","night"]},{"name":"*","models":["claude-haiku-*"]}],`+
		`"groups":[{"name":"web","models":["claude-*"]},{"name":"night","models":["gpt-6*"]}]`)
	kinds := []string{"permission_error", "invalid_request_error", "invalid_request_error", "PERMISSION_DENIED"}
	for i, api := range apis {
		res := p.post(api.path, api.body, "Authorization", "Bearer sk-anna")
		refusedAs(t, res, http.StatusForbidden, api.kindAt, kinds[i],
			`anna may not use the model "claude-opus-4-6" here; allowed: gpt-*`)
		refusedAs(t, p.post(api.path, api.body, "Authorization", "Bearer sk-stranger"), http.StatusForbidden, api.kindAt,
			kinds[i], `allowed: claude-haiku-*`)
	}
	for _, unread := range [][]string{
		{"/v1/embeddings", `{"model":"gpt-embed","input":"hi"}`},
		{"/v1/messages", `{"model":`},
		{"/v1/messages", apis[0].body, "Content-Encoding", "br"},
		{"/v1/messages", apis[0].body, "Content-Type", "text/plain"},
	} {
		res := p.post(unread[0], unread[1], append([]string{"X-Api-Key", "sk-anna"}, unread[2:]...)...)
		if body := read(t, res); res.StatusCode != http.StatusForbidden || !strings.Contains(body, "cannot be read") {
			t.Errorf("%v: %s %s", unread, res.Status, body)
		}
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	for _, ok := range [][]string{
		{"sk-ben", apis[0].body},
		{"sk-anna", strings.Replace(apis[0].body, "claude-opus-4-6", "gpt-6.2-astra", 1)},
		{"sk-stranger", strings.Replace(apis[0].body, "claude-opus-4-6", "claude-haiku-4-5", 1)},
	} {
		if res := p.post("/v1/messages", ok[1], "X-Api-Key", ok[0]); res.StatusCode != http.StatusOK {
			t.Errorf("%v: %s", ok, res.Status)
		}
	}
	if res := p.post("/v1/messages/count_tokens", `{"model":"x"}`, "X-Api-Key", "sk-anna"); res.StatusCode != http.StatusOK {
		t.Errorf("a count of tokens: %s", res.Status)
	}
}

// TestBudgetsOfKinds: a spent budget of a group or of the site refuses all of its users, and says so.
func TestBudgetsOfKinds(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	const users = `"users":[{"name":"anna","keys":["sk-anna"],"groups":["web"]},{"name":"ben","keys":["sk-ben"],` +
		`"groups":["web"]},{"name":"carla","keys":["sk-carla"]}],`
	for _, c := range []struct{ budget, says, other string }{
		{
			`"groups":[{"name":"web","budgets":[{"tokens":1000,"per":"week"}]}]`,
			"the budget of group web, 1,000 tokens a week, is", "200 OK",
		},
		{
			`"site":{"budgets":[{"tokens":1000,"per":"month"}]}`, "the budget of this site, 1,000 tokens a month, is",
			"429 Too Many Requests",
		},
	} {
		p := start(t, "respond 204") // with nothing spent
		p.withUsers(u, users+c.budget)
		ask := func(key string) response { return p.post("/v1/messages", conversation(1, false), "X-Api-Key", key) }
		if res := ask("sk-anna"); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", c.budget, res.Status)
		}
		refusedAs(t, ask("sk-ben"), http.StatusTooManyRequests, "error.type", "billing_error", c.says)
		used := 0.0
		for _, labels := range []string{`kind="group",name="web",period="week"`, `kind="site",name="",period="month"`} {
			used += p.metric("caddy_llm_cache_budget_used_ratio{" + labels + "}")
		}
		if used != 1.282 {
			t.Errorf("%s: the gauge says %v, want 1.282", c.budget, used)
		}
		if res := ask("sk-carla"); res.Status != c.other {
			t.Errorf("%s: somebody else got %s, want %s", c.budget, res.Status, c.other)
		}
	}
}

// TestClaimedGroups: the groups of a user from a claim are on record, in the report and on the page, and
// their budgets outlive a restart.
func TestClaimedGroups(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	serve := func() {
		p.move()
		p.usersOn(u, sqliteAt(path, ""), `"users":[{"name":"{http.request.header.Remote-User}",`+
			`"groups":["{http.request.header.Remote-Groups}"]}],"groups":[{"name":"web","budgets":[{"tokens":1000,"per":"month"}]}]`)
	}
	ask := func(user, groups string) response {
		return p.post("/v1/messages", conversation(1, false), "X-Api-Key", "k", "Remote-User", user, "Remote-Groups", groups)
	}
	serve()
	if res := ask("anna", "web, night"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	if r := turns(t, path, 1)[0]; !slices.Equal(r.Groups, []string{"web", "night"}) {
		t.Errorf("got the groups %q on record, want web and night", r.Groups)
	}
	var page struct{ Today audit.Period }
	p.adminDo(http.MethodGet, "/llm_cache/data", &page)
	if groups := page.Today.Of("group"); len(groups) < 2 {
		t.Errorf("got %+v on the page, want web and night", groups)
	}
	p.move()
	p.load(p.config("respond 204")) // the store is closed, and all that was counted is gone
	serve()
	refusedAs(t, ask("ben", "web"), http.StatusTooManyRequests, "error.type", "billing_error",
		"the budget of group web, 1,000 tokens a month, is")
	if res := ask("ben", "night"); res.StatusCode != http.StatusOK {
		t.Errorf("another group got %s, want 200", res.Status)
	}
}

// TestRateLimits: a budget of a minute is a 429 that clients wait for, in the words of each API.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	kinds := []string{"rate_limit_error", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"}
	for _, budget := range []string{`{"requests":2,"per":"minute"}`, `{"tokens":1500,"per":"minute"}`} {
		p := start(t, "respond 204") // with nothing spent
		p.withUsers(u, `"users":[{"name":"anna","keys":["sk-anna"]},{"name":"*","budgets":[`+budget+`]}]`)
		for i, api := range apis {
			passed := 0
			for range 6 { // a minute may end meanwhile
				res := p.post(api.path, api.body, "Authorization", "Bearer sk-anna")
				if res.StatusCode != http.StatusTooManyRequests {
					passed++
					continue
				}
				if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || n < 1 || n > 60 ||
					res.Header.Get("X-Should-Retry") != "" {
					t.Errorf("%s: %v", api.path, res.Header)
				}
				refusedAs(t, res, http.StatusTooManyRequests, api.kindAt, kinds[i], "the rate limit of anna, ")
				break
			}
			if passed > 4 || i == 0 && passed == 0 {
				t.Errorf("%s at %s: %d requests passed", budget, api.path, passed)
			}
		}
	}
}
