// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const threadsBeta = "message-threads-2026-08-12"

// provider is a simulated provider that notes what it gets.
func provider(t *testing.T) *upstream {
	u := new(upstream)
	model := &simulator.Handler{Cache: pricing.NewSimulator(pricing.SimulatorConfig{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		u.mu.Lock()
		u.got = append(u.got, received{r.Method, r.URL.Path, r.Header.Clone(), r.ContentLength, string(body)})
		u.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		model.ServeHTTP(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// threadHead is what Claude Code repeats in each request of a thread, and the SDK
// sends in the first only.
var threadHead = `"system":[{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}}],` +
	`"tools":[{"name":"Read","description":"` + strings.Repeat("Reads a file. ", 2000) +
	`","input_schema":{"type":"object"}}],`

// threadBody is a request of a thread: its first without an id, else the next.
func threadBody(previous, head, messages string) string {
	thread := `{"type":"create"}`
	if previous != "" {
		thread = `{"type":"continue","previous_message_id":"` + previous + `"}`
	}
	return `{"model":"claude-opus-4-6","max_tokens":1000,"messages":[` + messages + `],` + head + `"thread":` +
		thread + `}`
}

func userText(text string) string {
	return `{"role":"user","content":[{"type":"text","text":"` + text + `","cache_control":{"type":"ephemeral"}}]}`
}

// threadHistory is a conversation of tool turns that eager folds.
func threadHistory(turns int) string {
	return strings.TrimSuffix(strings.TrimSpace(gjson.Get(conversation(turns, false), "messages").Raw)[1:], "]")
}

// TestThreads: a conversation that the provider keeps is one session, its requests
// go out byte for byte behind the first, and are counted with all that stands in front.
func TestThreads(t *testing.T) {
	// In what Claude Code tells of itself each request names the one before it.
	attributed := strings.Replace(threadHead, `[`, `[{"type":"text","text":"`+wire.AttributionLine+` cch=first;"},`, 1)
	for name, heads := range map[string][2]string{
		"repeated": {threadHead, threadHead}, "once": {threadHead, ""},
		"attributed": {attributed, strings.Replace(attributed, "first", "next", 1)},
	} {
		begin, head := heads[0], heads[1]
		t.Run(name, func(t *testing.T) {
			u := provider(t)
			p := start(t,
				"llm_cache {\n upstream anthropic\n policy eager\n zones {\n frozen 0\n hot 1\n min_messages 0\n }\n expand "+
					"on\n}\nreverse_proxy "+u.Listener.Addr().String())
			post := func(body string, more ...string) response {
				return p.post("/v1/messages", body, append([]string{"Anthropic-Beta", "other-1," + threadsBeta, "X-Api-Key", "a"},
					more...)...)
			}
			create := threadBody("", begin, threadHistory(6)+`,{"role":"assistant","content":[{"type":"text","text":"Done."}]},`+
				userText("Go on."))
			res := post(create)
			answer := read(t, res)
			session, original := res.Header.Get("X-Llm-Cache-Session"), res.Header.Get("X-Llm-Cache-Original-Tokens")
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", res.StatusCode, answer)
			}
			first := u.last()
			if len(first.body) >= len(create) || strings.Contains(first.body, "mcp__llm_cache__expand") ||
				gjson.Get(first.body, "tools").Raw != gjson.Get(create, "tools").Raw ||
				gjson.Get(first.body, "system").Raw != gjson.Get(create, "system").Raw {
				t.Errorf("the first request became %s", first.body)
			}
			saved := res.Header.Get("X-Llm-Cache-Saved-Tokens")
			said := []string{answer}
			for n := range 3 {
				id := gjson.Get(answer, "id").Str
				body := threadBody(id, head, userText(fmt.Sprint("And then ", n, "?")))
				res = post(body)
				answer = read(t, res)
				said = append(said, answer)
				if res.StatusCode != http.StatusOK || u.last().body != body || u.last().header.Get("Anthropic-Beta") != "other-1,"+
					threadsBeta {
					t.Fatalf("request %d: status %d, %s; sent %s with %v", n, res.StatusCode, answer, u.last().body, u.last().header)
				}
				if res.Header.Get("X-Llm-Cache-Session") != session {
					t.Errorf("request %d is another session", n)
				}
				if got := res.Header.Get("X-Llm-Cache-Original-Tokens"); len(got) < len(original) || len(got) == len(original) &&
					got <= original {
					t.Errorf("request %d has %s original tokens, the one before %s", n, got, original)
				}
				if got := res.Header.Get("X-Llm-Cache-Saved-Tokens"); got != saved || saved == "0" {
					t.Errorf("request %d saves %s tokens, the first %s", n, got, saved)
				}
				if gjson.Get(answer, "usage.cache_read_input_tokens").Int() == 0 {
					t.Errorf("request %d read nothing from the cache: %s", n, answer)
				}
				original = res.Header.Get("X-Llm-Cache-Original-Tokens")
			}
			if s := p.sessions(); len(s) != 1 || len(s[0].Conversations) != 1 || s[0].requests() != 4 {
				t.Fatalf("sessions are %+v, want one conversation of four requests", s)
			}

			// The same once more: refused, and part of nothing.
			if res := post(threadBody(gjson.Get(said[0], "id").Str, head,
				userText("Again?"))); res.StatusCode != http.StatusBadRequest ||
				gjson.Get(read(t, res), "error.details.error_code").Str != "thread_already_continued" {
				t.Errorf("status %d", res.StatusCode)
			}

			// The client begins anew with all that was said: what had gone out stays.
			unmarked := func(text string) string {
				return strings.Replace(userText(text), `,"cache_control":{"type":"ephemeral"}`, "", 1)
			}
			whole := threadHistory(6) + `,{"role":"assistant","content":[{"type":"text","text":"Done."}]},` + unmarked("Go on.")
			for n, a := range said {
				whole += `,{"role":"assistant","content":` + gjson.Get(a, "content").Raw + `}`
				if n < 3 {
					whole += "," + unmarked(fmt.Sprint("And then ", n, "?"))
				}
			}
			res = post(threadBody("", begin, whole+","+userText("All again.")))
			if answer = read(t, res); res.StatusCode != http.StatusOK || res.Header.Get("X-Llm-Cache-Session") != session {
				t.Fatalf("status %d, session %s: %s", res.StatusCode, res.Header.Get("X-Llm-Cache-Session"), answer)
			}
			if got, want := gjson.Get(u.last().body, "messages.2").Raw, gjson.Get(first.body, "messages.2").Raw; got != want {
				t.Errorf("what was folded went out as %s, not %s", got, want)
			}
			if s := p.sessions(); len(s[0].Conversations) != 1 || s[0].requests() != 5 || len(s) > 1 && s[1].requests() > 0 {
				t.Errorf("sessions are %+v, want one conversation of five requests", s)
			}

			// Another's key finds nothing of it.
			res = p.post("/v1/messages", threadBody(gjson.Get(answer, "id").Str, head, userText("Mine?")), "Anthropic-Beta",
				threadsBeta, "X-Api-Key", "b")
			if res.StatusCode != http.StatusNotFound || res.Header.Get("X-Llm-Cache-Session") == session {
				t.Errorf("status %d, session %s", res.StatusCode, res.Header.Get("X-Llm-Cache-Session"))
			}
		})
	}
}

// TestThreadUnknown: a thread of which this process knows nothing is a conversation
// of its own, from there on; an empty message list goes on, too.
func TestThreadUnknown(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Replace(message, "msg_1", fmt.Sprint("msg_", n), 1))
	})
	p := start(t, plain(u))
	for n, messages := range []string{userText("On."), "", userText("And on.")} {
		body := threadBody(fmt.Sprint("msg_", n), "", messages)
		if res := p.post("/v1/messages", body, "Anthropic-Beta", threadsBeta); res.StatusCode != http.StatusOK ||
			u.last().body != body || res.Header.Get("X-Llm-Cache-Bypass") != "" {
			t.Errorf("status %d, %v, sent %s", res.StatusCode, res.Header, u.last().body)
		}
	}
	if s := p.sessions(); len(s) != 1 || len(s[0].Conversations) != 1 || s[0].requests() != 3 {
		t.Errorf("sessions are %+v, want one conversation of three requests", s)
	}
}

// TestUnretained: what an upstream cannot retain is refused at once in the words that
// clients act on, and what it is asked to retain it gets without that.
func TestUnretained(t *testing.T) {
	answers := map[string]func(http.ResponseWriter, *http.Request, int){
		"openai_chat": func(w http.ResponseWriter, r *http.Request, n int) {
			if gjson.Get(r.Header.Get("X-Body"), "stream").Bool() {
				stream(chatEvents...)(w, r, n)
				return
			}
			answerChat(w, r, n)
		},
		"anthropic": func(w http.ResponseWriter, r *http.Request, n int) {
			if gjson.Get(r.Header.Get("X-Body"), "stream").Bool() {
				stream(events...)(w, r, n)
				return
			}
			answerMessage(w, r, n)
		},
	}
	for _, c := range []struct{ upstream, speaks string }{
		{"mlx_lm", "openai_chat"},
		{"lm_studio", "openai_chat"},
		{"omlx {\n format anthropic\n}", "anthropic"},
		{"openai {\n format openai_chat\n}", "openai_chat"},
	} {
		var mu sync.Mutex
		u := new(upstream)
		u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			u.got = append(u.got, received{r.Method, r.URL.Path, r.Header.Clone(), r.ContentLength, string(body)})
			n := len(u.got)
			mu.Unlock()
			r.Header.Set("X-Body", fmt.Sprintf(`{"stream":%t}`, gjson.GetBytes(body, "stream").Bool()))
			answers[c.speaks](w, r, n)
		}))
		t.Cleanup(u.Close)
		p := start(t, behind(u, c.upstream))

		res := p.post("/v1/messages", threadBody("msg_1", threadHead, userText("On.")), "Anthropic-Beta", threadsBeta)
		got := read(t, res)
		if res.StatusCode != http.StatusBadRequest || len(u.requests()) != 0 || gjson.Get(got, "type").Str != "error" ||
			gjson.Get(got, "error.type").Str != "invalid_request_error" ||
			gjson.Get(got, "error.details.error_code").Str != "thread_unsupported_request" ||
			!strings.Contains(gjson.Get(got, "error.message").Str, threadsBeta) || !json.Valid([]byte(got)) {
			t.Errorf("%s: status %d, %d requests upstream, %s", c.upstream, res.StatusCode, len(u.requests()), got)
		}
		for _, streamed := range []bool{false, true} {
			body := strings.Replace(threadBody("", threadHead, userText("Go.")), `"max_tokens"`,
				fmt.Sprintf(`"stream":%t,"max_tokens"`, streamed), 1)
			for _, coding := range []string{"", "gzip"} {
				headers, sent := []string{"Anthropic-Beta", "other-1, " + threadsBeta + ",other-2"}, body
				if coding != "" {
					headers, sent = append(headers, "Content-Encoding", coding), gzipped(t, body)
				}
				res := p.post("/v1/messages", sent, headers...)
				got := read(t, res)
				last := u.last()
				turn := turnOf("anthropic", streamed, got)
				if res.StatusCode != http.StatusOK || !turn.Done || turn.ID == "" || strings.HasPrefix(turn.ID, "msg_") ||
					!gjson.Valid(last.body) || gjson.Get(last.body, "thread").Exists() || last.length != int64(len(last.body)) {
					t.Errorf("%s: stream %t: status %d, id %q, sent %s; got %s", c.upstream, streamed, res.StatusCode, turn.ID,
						last.body, got)
				}
				if beta := last.header.Get("Anthropic-Beta"); c.speaks == "anthropic" && beta != "other-1,other-2" ||
					strings.Contains(beta, threadsBeta) {
					t.Errorf("%s: beta %q", c.upstream, beta)
				}
			}
		}
		p.post("/v1/messages", threadBody("", "", userText("Go.")), "Anthropic-Beta", threadsBeta)
		if _, ok := u.last().header["Anthropic-Beta"]; ok {
			t.Errorf("%s: an empty header stays", c.upstream)
		}
		if s := p.sessions(); len(s) == 0 || len(s[0].Conversations) == 0 {
			t.Errorf("%s: nothing was counted", c.upstream)
		}
		// Who asks for no thread gets the ids of the upstream.
		if got := read(t, p.post("/v1/messages", conversation(0, false))); c.speaks == "anthropic" && got != message {
			t.Errorf("%s: got %s", c.upstream, got)
		}
	}
}

// TestThreadsOnRecord: each request of a thread is on audit record as a turn, also
// where it does not repeat the tools, and also where it is refused here.
func TestThreadsOnRecord(t *testing.T) {
	u := provider(t)
	p := start(t, "respond 204")
	for _, c := range []struct {
		name, head string
		upstream   string
		want       string
	}{
		{"repeated", threadHead, "anthropic", "turn completed 200, turn completed 200, side completed 200"},
		{"once", "", "anthropic", "turn completed 200, turn completed 200, side completed 200"},
		{"refused", "", "mlx_lm {\n format anthropic\n}", "turn completed 200, turn failed 400, side completed 200"},
	} {
		path := filepath.Join(t.TempDir(), "audit.db")
		p.audited(behind(u, c.upstream), sqliteAt(path, ""))
		post := func(body string) response {
			return p.post("/v1/messages", body, "Anthropic-Beta", threadsBeta)
		}
		res := post(threadBody("", threadHead, userText("Go.")))
		id := gjson.Get(read(t, res), "id").Str
		read(t, post(threadBody(id, c.head, userText("And then?"))))
		read(t, post(threadBody("", "", userText("What shall I call this?"))))
		var got []string
		for _, r := range turns(t, path, 3) {
			got = append(got, fmt.Sprint(r.Kind, " ", r.Outcome, " ", r.Status))
			if (r.Session == res.Header.Get("X-Llm-Cache-Session")) != (r.Kind == audit.KindTurn) ||
				r.Model != "claude-opus-4-6" {
				t.Errorf("%s: session %s, model %s", c.name, r.Session, r.Model)
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: on record are %s", c.name, got)
		}
	}
}

// TestUnretainedIsCountedOnce: what is refused since nobody keeps what it goes on from is one
// request, of that outcome and no other.
func TestUnretainedIsCountedOnce(t *testing.T) {
	u := provider(t)
	p := start(t, behind(u, "mlx_lm {\n format anthropic\n}"))
	counted := func() (unretained, all float64) {
		var text string
		p.adminDo(http.MethodGet, "/metrics", &text)
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "caddy_llm_cache_requests_total{") {
				fields := strings.Fields(l)
				n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
				if err != nil {
					t.Fatal(err)
				}
				if all += n; strings.Contains(l, `outcome="unretained"`) {
					unretained += n
				}
			}
		}
		return unretained, all
	}
	for _, body := range []string{
		threadBody("msg_1", "", userText("And then?")),
		strings.Replace(threadBody("", "", userText("Hi.")), `"thread":{"type":"create"}`, `"container":"c_1"`, 1),
	} {
		unretained, all := counted()
		if res := p.post("/v1/messages", body, "Anthropic-Beta", threadsBeta); res.StatusCode != http.StatusBadRequest {
			t.Fatalf("status %d, %s", res.StatusCode, read(t, res))
		}
		if now, total := counted(); now != unretained+1 || total != all+1 {
			t.Errorf("%v are counted as unretained and %v at all, want one", now-unretained, total-all)
		}
	}
}

// TestResponsesGoOn: what goes on from a stored response is the same conversation.
func TestResponsesGoOn(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"id":"resp_%d","object":"response","status":"completed","model":"gpt-5.6","output":[{"type":"message",`+
				`"id":"m%d","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}],"usage":{"input_tokens":%d,`+
				`"output_tokens":5,"input_tokens_details":{"cached_tokens":0}}}`, n, n, 1000+10*n)
	})
	p := start(t, behind(u, "openai"))
	for n := range 4 {
		body := fmt.Sprintf(`{"model":"gpt-5.6","input":[{"role":"user","content":"Prompt %d."}]`, n)
		if n > 0 {
			body += fmt.Sprintf(`,"previous_response_id":"resp_%d"`, n)
		}
		body += `}`
		res := p.post("/v1/responses", body, "Authorization", "Bearer a")
		if u.last().body != body || res.StatusCode != http.StatusOK {
			t.Errorf("request %d: sent %s", n, u.last().body)
		}
		if got := res.Header.Get("X-Llm-Cache-Original-Tokens"); n > 0 && len(got) < 4 {
			t.Errorf("request %d has %s tokens", n, got)
		}
	}
	if s := p.sessions(); len(s) != 1 || len(s[0].Conversations) != 1 || s[0].requests() != 4 {
		t.Errorf("sessions are %+v, want one conversation of four requests", s)
	}
}

// TestUntouchedState: what is kept elsewhere and is not read here passes as it is;
// what another API would keep, or a box not understand, is refused by name.
func TestUntouchedState(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "gemini"))
	const interaction = `{"model":"gemini-3.1-pro", "input":"Hi","previous_interaction_id":"i_1","store":true}`
	if p.post("/v1beta/interactions", interaction); u.last().body != interaction ||
		u.last().path != "/v1beta/interactions" {
		t.Errorf("sent %s to %s", u.last().body, u.last().path)
	}
	const cached = `{"cachedContent":"cachedContents/1","contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`
	if p.post("/v1beta/models/gemini-3.1-pro:generateContent", cached); u.last().body != cached {
		t.Errorf("sent %s", u.last().body)
	}
	p.reload(behind(u, "openai"))
	for _, path := range []string{"/v1/responses/compact", "/v1/responses"} {
		for _, more := range []string{
			`"conversation":"conv_1"`, `"store":true,"background":true`,
			`"context_management":[{"type":"compaction","compact_threshold":9}]`,
		} {
			body := `{"model":"gpt-5.6",` + more +
				`,"input":[{"type":"compaction","encrypted_content":"x"},{"type":"item_reference","id":"i"},{"role":"user",` +
				`"content":"Hi"}]}`
			if p.post(path, body); u.last().body != body || u.last().path != path {
				t.Errorf("sent %s to %s", u.last().body, u.last().path)
			}
		}
	}
	p.reload(behind(u, "mlx_lm"))
	if res := p.post("/v1/responses/compact", `{"model":"m","input":"Hi"}`); res.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", res.StatusCode)
	}
	refusesState(t, p, u)
	p.reload(behind(u, "omlx")) // which speaks these formats itself
	refusesState(t, p, u)
}

// refusesState sends what only a provider's own API can do: it is refused by name.
func refusesState(t *testing.T, p *proxy, u *upstream) {
	t.Helper()
	before := len(u.requests())
	for path, bodies := range map[string][]string{
		"/v1/responses": {
			`{"model":"m","input":"Hi","conversation":"c"}`,
			`{"model":"m","input":"Hi","context_management":[{"type":"compaction"}]}`,
			`{"model":"m","input":[{"type":"compaction","encrypted_content":"x"}]}`,
		},
		"/v1/messages": {
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],` +
				`"context_management":{"edits":[{"type":"compact_20260112"}]}}`,
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"compaction":{"type":"enabled"}}`,
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"container":"c"}`,
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"},{"role":"assistant",` +
				`"content":[{"type":"compaction","content":"x"}]}]}`,
		},
	} {
		for _, body := range bodies {
			res := p.post(path, body)
			if got := read(t, res); res.StatusCode/100 != 4 || len(u.requests()) != before || !strings.Contains(got, `"error"`) {
				t.Errorf("%s %s: status %d, %s", path, body, res.StatusCode, got)
			}
		}
	}
}

// TestThreadsBounds: what is made whole of a few bytes takes no memory that is not there. It
// goes as the client sent it then.
func TestThreadsBounds(t *testing.T) {
	var p *proxy
	var used int64
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		used = budget.Of(p.caddy.Instance).Used()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"id":"resp_%d","object":"response","status":"completed","output":[{"type":"message","id":"m",`+
				`"role":"assistant","content":[{"type":"output_text","text":"Yes."}]}],"usage":{"input_tokens":1000,`+
				`"output_tokens":5}}`, n)
	})
	p = start(t, behind(u, "openai"))
	const tools = `"tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],`
	if res := p.post("/v1/responses", `{"model":"gpt-5.6",`+tools+`"input":"`+strings.Repeat("word ", 200<<10)+
		`"}`); res.StatusCode != http.StatusOK {
		t.Fatal(read(t, res))
	}
	room := budget.Of(p.caddy.Instance).Limit()
	defer budget.Of(p.caddy.Instance).Resize(room)
	budget.Of(p.caddy.Instance).Resize(2 << 20)
	taken := budget.Of(p.caddy.Instance).Open()
	defer taken.Close()
	if err := taken.Grow(t.Context(), 1<<20); err != nil {
		t.Fatal(err)
	}
	body := `{"model":"gpt-5.6",` + tools + `"previous_response_id":"resp_1","input":"And?"}`
	if res := p.post("/v1/responses", body); res.StatusCode != http.StatusOK || u.last().body != body {
		t.Errorf("status %d, sent %.300s", res.StatusCode, u.last().body)
	}
	if used > 2<<20 {
		t.Errorf("%d bytes were taken, of %d", used, 2<<20)
	}
}
