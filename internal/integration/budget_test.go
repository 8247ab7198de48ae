// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// budgeted loads a site whose audit store and budgets of users are given in JSON.
func (p *proxy) budgeted(u *upstream, store, budgets string) {
	p.t.Helper()
	p.move()
	p.load([]byte(strings.Replace(string(p.auditing(plain(u), store)), `"llm_cache":{`,
		`"llm_cache":{"users":[{"name":"anna","keys":["sk-anna"]},`+budgets+`],`, 1)))
}

// TestReservationEnds: the maximum cost of a request is reserved up to its last event, so that the client's next
// request is served although the upstream has not closed the stream.
func TestReservationEnds(t *testing.T) {
	end := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(events, ""))
		_ = http.NewResponseController(w).Flush()
		<-end
	})
	defer close(end)
	p := start(t, "respond 204")
	p.budgeted(u, sqliteAt(filepath.Join(t.TempDir(), "audit.db"), ""), `{"name":"anna","budgets":[{"dollars":0.01}]}`)
	first := p.post("/v1/messages", conversation(1, true), "X-Api-Key", "sk-anna")
	defer first.Body.Close()
	for lines := bufio.NewScanner(first.Body); lines.Scan() && lines.Text() != "event: message_stop"; {
	}
	if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna"); res.StatusCode != http.StatusOK {
		t.Errorf("got %d %s, want 200", res.StatusCode, read(t, res))
	}
}

// TestBudget: fifty requests at once spend a budget, and no more than one request beyond
// it; the answer is one of the client's own API and says when the budget begins anew;
// others are not held up, and a restart gives nothing back.
func TestBudget(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	const budgets = `{"name":"anna","budgets":[{"dollars":0.01,"per":"month"}]},` +
		`{"name":"carla","budgets":[{"tokens":100000}]},{"name":"*","budgets":[{"tokens":2000000,"soft":true}]}`
	p.budgeted(u, store, budgets)
	const maxRequests = 10 // at 201.4 units of $5 a million each, the tenth begins below the bound and ends above
	var answered, spent, refused atomic.Int64
	for range 40 {
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna", "X-Session-Id", "s")
				body, _ := io.ReadAll(res.Body)
				switch {
				case res.StatusCode == http.StatusOK:
					answered.Add(1)
				case res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "":
					t.Errorf("%s: %s", res.Status, body)
				case strings.Contains(string(body), `"billing_error"`) &&
					strings.Contains(string(body), "the budget of anna, $0.01 a month, is spent ("):
					spent.Add(1)
				case strings.Contains(string(body), `"rate_limit_error"`) && res.Header.Get("Retry-After") == "5":
					refused.Add(1)
				default:
					t.Errorf("%s: %s", res.Status, body)
				}
			})
		}
		group.Wait()
		if spent.Load() > 0 {
			break
		}
	}
	if n := answered.Load(); n != maxRequests || spent.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d requests were answered, want %d; %d found the budget spent, %d set aside", n, maxRequests, spent.Load(),
			refused.Load())
	}
	chat := `{"model":"gpt-6.1","messages":[{"role":"user","content":"hi"}]}`
	res := p.post("/v1/chat/completions", chat, "Authorization", "Bearer sk-anna")
	if body := read(t, res); res.StatusCode != http.StatusTooManyRequests ||
		!strings.Contains(body, `"code":"insufficient_quota"`) || strings.Contains(body, `"type":"error"`) ||
		!strings.Contains(res.Header.Get("X-Llm-Cache-Budget"), "$0.01 of $0.01 a month, until ") {
		t.Errorf("the same key in another API: %s, %v: %s", res.Status, res.Header, body)
	}
	if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-ben"); res.StatusCode != http.StatusOK ||
		res.Header.Get("X-Llm-Cache-Budget") != "" {
		t.Errorf("somebody else: %s, %v", res.Status, res.Header)
	}

	turns(t, storePath(store), maxRequests+1+int(spent.Load()+refused.Load())+1)
	p.move()
	p.load(p.config("respond 204")) // the store is closed, and all that was counted is gone
	p.budgeted(u, store, budgets)
	before := len(u.requests())
	if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna", "X-Session-Id",
		"s"); res.StatusCode != http.StatusTooManyRequests || len(u.requests()) != before {
		t.Errorf("after a restart: %s", res.Status)
	}
}

// TestBudgetEndsUnknownModels: a budget ends with the first request to a model that the
// models file does not have, and its record says which models stood in.
func TestBudgetEndsUnknownModels(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	p.budgeted(u, store, `{"name":"*","budgets":[{"dollars":0.00001}]}`)
	models := map[string][2]string{ // whose rules and whose prices are taken
		"gpt-6.9-nova":     {"gpt-6.2-astra", "gpt-6-astra"},
		"claude-opus-6":    {"claude-opus-5-5", "claude-opus-4-1"},
		"deepseek-flash-2": {"deepseek-flash", "deepseek-flash"},
		"glm-9":            {"glm-5.3", "glm-5.3"},
		"some-model":       {"", "claude-opus-4-1"},
	}
	for model := range models {
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			body := strings.Replace(conversation(1, false), "claude-opus-4-6", model, 1)
			if res := p.post("/v1/messages", body, "X-Api-Key", "sk-"+model); res.StatusCode != want {
				t.Errorf("%s: got %s, want %d", model, res.Status, want)
			}
		}
	}
	for _, r := range turns(t, storePath(store), 2*len(models)) {
		if want := models[r.Model]; r.Outcome == audit.Completed &&
			(r.AssumedFrom != want[0] || r.PricesOf != want[1] || r.USD <= 0) {
			t.Errorf("%s: got rules of %q, prices of %q, $%g; want rules of %q, prices of %q", r.Model, r.AssumedFrom,
				r.PricesOf, r.USD, want[0], want[1])
		}
	}
}

// TestUnknownModelsRefused: with `unknown_models refuse` a request for a model without a price ends
// with a 400 in the words of the client's API, with a budget and without one. Known models and
// those of local servers are answered.
func TestUnknownModelsRefused(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	site := func(store, options, handler string) {
		p.t.Helper()
		p.move()
		config := p.auditing(handler+"\nreverse_proxy "+u.Listener.Addr().String(), store)
		p.load([]byte(strings.Replace(string(config), `"llm_cache":{`, `"llm_cache":{"unknown_models":"refuse",`+options, 1)))
	}
	chat := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	}
	const refused = `is refused: its price is not known here, and unknown_models is refuse; use another model, or have ` +
		`the operator add this one to the file of the option prices`
	for _, options := range []string{"", `"users":[{"name":"*","budgets":[{"dollars":5}]}],`} {
		store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
		site(store, options, "llm_cache")
		const counter = `caddy_llm_cache_requests_total{outcome="unknown_model",policy="cost_aware"}`
		counted, asked := p.metric(counter), len(u.requests())
		requests := []struct{ path, body, kind, kindAt, messageAt string }{
			{
				"/v1/messages", strings.Replace(conversation(1, false), "claude-opus-4-6", "claude-opus-6", 1),
				"invalid_request_error", "error.type", "error.message",
			},
			{"/v1/messages", chat("some-model"), "invalid_request_error", "error.type", "error.message"},
			{"/v1/chat/completions", chat("gpt-6.9-nova"), "invalid_request_error", "error.type", "error.message"},
			{
				"/v1/responses", `{"model":"gpt-6.9-nova","input":"hi"}`, "invalid_request_error", "error.type",
				"error.message",
			},
			{
				"/v1beta/models/gemini-9-neon:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
				"INVALID_ARGUMENT", "error.status", "error.message",
			},
		}
		for _, c := range requests {
			res := p.post(c.path, c.body, "X-Api-Key", "sk-anna")
			body := read(t, res)
			if res.StatusCode != http.StatusBadRequest || res.Header.Get("X-Should-Retry") != "false" ||
				gjson.Get(body, c.kindAt).Str != c.kind || !strings.Contains(gjson.Get(body, c.messageAt).Str, refused) {
				t.Errorf("%s with %q: got %s %v %s, want a 400 of %s, not to be retried, whose message has %q", c.path, options,
					res.Status, res.Header, body, c.kind, refused)
			}
		}
		if got := len(u.requests()) - asked; got != 0 {
			t.Errorf("with %q: got %d requests at the upstream, want none", options, got)
		}
		if got, want := p.metric(counter)-counted, float64(len(requests)); got != want {
			t.Errorf("with %q: got %g of outcome unknown_model, want %g", options, got, want)
		}
		res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna")
		if body := read(t, res); res.StatusCode != http.StatusOK {
			t.Errorf("with %q, a known model: got %s %s, want 200", options, res.Status, body)
		}
		for _, r := range turns(t, storePath(store), len(requests)+1) {
			if want := r.Model == "claude-opus-4-6"; (r.Outcome == audit.Completed) != want ||
				!want && (r.Outcome != audit.Refused || r.Status != http.StatusBadRequest || r.USD != 0) {
				t.Errorf("with %q, %s on record: got %s, %d, $%g, want completed %t, or else refused by a 400 for nothing",
					options, r.Model, r.Outcome, r.Status, r.USD, want)
			}
		}
	}

	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	site(store, "", "llm_cache {\nupstream mlx_lm {\nformat anthropic\n}\n}")
	res := p.post("/v1/messages", chat("some-model"), "X-Api-Key", "sk-anna")
	if body := read(t, res); res.StatusCode != http.StatusOK {
		t.Errorf("a local server's model: got %s %s, want 200", res.Status, body)
	}
	site(store, "", "llm_cache {\nupstream anthropic {\nmodel our-* claude-opus-6\n}\n}")
	res = p.post("/v1/messages", chat("our-model"), "X-Api-Key", "sk-anna")
	const renamed = `the model \"our-model\" is refused: the price of \"claude-opus-6\", which the upstream serves for it`
	if body := read(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, renamed) {
		t.Errorf("a renamed model: got %s %s, want 400 and %s", res.Status, body, renamed)
	}
}

// TestBudgetAndJunkCredentials: what a request carries besides its key is no way around a
// spent budget, with a name or without.
func TestBudgetAndJunkCredentials(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.budgeted(u, sqliteAt(filepath.Join(t.TempDir(), "audit.db"), ""), `{"name":"*","budgets":[{"tokens":1000}]}`)
	for _, key := range []string{"sk-anna", "sk-nobody"} {
		if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", key); res.StatusCode != http.StatusOK {
			t.Fatalf("the first request of %s: %s", key, res.Status)
		} else {
			read(t, res)
		}
		for _, junk := range [][]string{
			{"/v1/messages?key=1"},
			{"/v1/messages?key=%zz"},
			{"/v1/messages?a;b"},
			{"/v1/messages", "Api-Key", "junk"},
			{"/v1/messages", "X-Goog-Api-Key", "junk"},
			{"/v1/messages", "Authorization", "Bearer junk"},
		} {
			res := p.post(junk[0], conversation(1, false), append([]string{"X-Api-Key", key}, junk[1:]...)...)
			if body := read(t, res); res.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "billing_error") {
				t.Errorf("%s with %v: got %s %s, want 429", key, junk, res.Status, body)
			}
		}
	}
}

// TestBudgetOfOtherEndpoints: a spent budget refuses what is paid for and not read here, and
// such requests count by the usage that their answers tell.
func TestBudgetOfOtherEndpoints(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		var to io.Writer = w
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		_, _ = io.WriteString(to, `{"object":"list","data":[`+strings.Repeat(`0.25, `, 4000)+
			`0],"model":"text-embedding-9","usage":{"prompt_tokens":1200,"total_tokens":1200}}`)
	})
	p := start(t, "respond 204")
	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	p.budgeted(u, store, `{"name":"*","budgets":[{"tokens":1000}]}`)
	if res := p.post("/v1/embeddings", `{"input":"hi"}`, "Authorization", "Bearer sk-anna", "Accept-Encoding",
		"gzip, deflate"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	} else if body := read(t, res); !strings.HasSuffix(body, `"total_tokens":1200}}`) {
		t.Errorf("the answer was changed: %.80s", body)
	}
	for path, want := range map[string]int{
		"/v1/embeddings": 429, "/v1/messages/batches": 429, "/v1/batches": 429,
		"/v1beta/models/gemini-3.1-pro:batchGenerateContent": 429, "/v1/messages/count_tokens": 200, "/v1/files": 200,
	} {
		res := p.post(path, `{"input":"hi"}`, "Authorization", "Bearer sk-anna")
		if read(t, res); res.StatusCode != want {
			t.Errorf("%s: got %s, want %d", path, res.Status, want)
		}
	}
	if res := p.post("/v1/embeddings", `{"input":"hi"}`, "Authorization", "Bearer sk-anna", "User-Agent",
		"opencode/1.18 ai-sdk/provider-utils/4.0"); res.StatusCode != http.StatusPaymentRequired {
		t.Errorf("the AI SDK got %s, want 402", res.Status)
	}
	refused := map[int]int{}
	for _, r := range turns(t, storePath(store), 6) {
		if r.Outcome == audit.Refused {
			refused[r.Status]++
		}
		if r.Outcome == audit.Completed && (r.User != "anna" || r.Model != "text-embedding-9" || r.Billed.Uncached != 1200) {
			t.Errorf("on record: %+v", r)
		}
	}
	if refused[429] != 4 || refused[402] != 1 {
		t.Errorf("refusals on record by status: %v, want four of 429 and one of 402", refused)
	}
}

// TestBudgetOverAWebSocket: a spent budget ends a client on a socket as it ends one of POSTs.
func TestBudgetOverAWebSocket(t *testing.T) {
	u := provider(t)
	p := start(t, "respond 204")
	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	p.budgeted(u, store, `{"name":"anna","budgets":[{"tokens":20}]}`)
	s := p.socket(t, "Authorization", "Bearer sk-anna", "User-Agent", "codex_exec/0.169.0 (Debian 12.0.0; x86_64)")
	s.ask(socketCreate("", `"One?"`))
	asked := len(u.requests())
	e := s.refused(socketCreate("", `"Two?"`), "insufficient_quota", http.StatusTooManyRequests)
	if got := e.Get("error"); got.Get("type").Str != "usage_limit_reached" ||
		!strings.Contains(got.Get("message").Str, "the budget of anna, 20 tokens a day, is spent") {
		t.Errorf("got %s", e)
	}
	if len(u.requests()) != asked {
		t.Error("the refused request reached the upstream")
	}
}

// Another audit store gives nothing back of what was spent, and what is read of it counts
// once, however often it comes into force.
func TestBudgetsOverStores(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	dir := t.TempDir()
	stores := [...]string{sqliteAt(filepath.Join(dir, "a.db"), ""), sqliteAt(filepath.Join(dir, "b.db"), "")}
	const maxRequests = 10 // as in TestBudget
	asked := 0
	for i, n := range [...]int{4, 3, 2, 3} {
		p.budgeted(u, stores[i%2], `{"name":"anna","budgets":[{"dollars":0.01,"per":"month"}]}`)
		for range n {
			asked++
			res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna", "X-Session-Id", "s")
			read(t, res)
			if ok := res.StatusCode == http.StatusOK; ok != (asked <= maxRequests) {
				t.Errorf("request %d: %s", asked, res.Status)
			}
		}
	}
}

// TestSoftBudget: a soft budget warns and refuses nothing.
func TestSoftBudget(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.budgeted(u, sqliteAt(filepath.Join(t.TempDir(), "audit.db"), ""), `{"name":"*","budgets":[{"tokens":2000,"soft":true}]}`)
	var said []string
	for range 4 {
		res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna", "X-Session-Id", "s")
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		read(t, res)
		said = append(said, res.Header.Get("X-Llm-Cache-Budget"))
	}
	if said[0] != "" || said[1] != "" || !strings.HasPrefix(said[2], "2,564 tokens of 2,000 tokens a day, until ") {
		t.Errorf("the answers say %q", said)
	}
}

// TestBudgetsOfFailedReload: the page shows the budgets that are in force, not those of a
// configuration that never was.
func TestBudgetsOfFailedReload(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	store := sqliteAt(filepath.Join(t.TempDir(), "audit.db"), "")
	p.budgeted(u, store, `{"name":"*","budgets":[{"tokens":20000}]}`)
	read(t, p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna", "X-Session-Id", "s"))
	bad := strings.NewReplacer(`"apps":{"llm_cache":{`, `"apps":{"llm_cache":{"users":[{"name":"*","budgets":[{"tokens":30000}]}],`,
		`"listen":[":`, `"listen":["192.0.2.1:`).Replace(string(p.auditing(plain(u), store)))
	for range 8 { // the apps of a configuration start in any order
		if p.caddy.Load([]byte(bad)) == nil {
			t.Fatal("it listens at 192.0.2.1")
		}
	}
	time.Sleep(1100 * time.Millisecond) // the page is that old at most
	w := httptest.NewRecorder()
	app.Dashboard(p.caddy.Instance).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/data", nil))
	if spent := gjson.Get(w.Body.String(), "budgets.0.spent").Str; !strings.HasSuffix(spent, " of 20,000 tokens a day") {
		t.Errorf("the page says %q", spent)
	}
}

// storePath is the path in the JSON of a SQLite store.
func storePath(store string) string {
	_, rest, _ := strings.Cut(store, `"path":"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}
