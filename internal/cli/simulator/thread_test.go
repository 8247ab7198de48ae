// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func ask(h *Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestThreadErrors: each error that the Messages API documents for threads has its status, type and
// code, and leaves the thread unchanged.
func TestThreadErrors(t *testing.T) {
	now := time.Unix(1e9, 0)
	var inside func()
	h := &Handler{Cache: newCache(t, "anthropic-5m"), Unthreaded: []string{"context_management", "cache_control"}}
	h.Hooks.Now = func(context.Context) time.Time { return now }
	h.Hooks.Answer = func(context.Context, *wire.View) *Answer {
		if f := inside; f != nil {
			inside = nil
			f()
		}
		return nil
	}
	post := func(more, thread, messages string, headers ...string) *httptest.ResponseRecorder {
		if len(headers) == 0 {
			headers = []string{"Anthropic-Beta", "other," + threadsBeta, "X-Api-Key", "a"}
		}
		return ask(h, "/v1/messages", `{"model":"claude-opus-4-6","max_tokens":9,`+more+`"messages":[`+messages+`],"thread":`+
			thread+`}`, headers...)
	}
	goOn := func(id string) string { return `{"type":"continue","previous_message_id":"` + id + `"}` }
	const system = `"system":"You are an agent.",`
	const hi, more = `{"role":"user","content":"Hi."}`, `{"role":"user","content":"More."}`
	id := func(w *httptest.ResponseRecorder) string {
		t.Helper()
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		return gjson.Get(w.Body.String(), "id").Str
	}
	expect := func(what string, w *httptest.ResponseRecorder, status int, kind, code, message, unsupported string) {
		t.Helper()
		e := gjson.Parse(w.Body.String())
		if w.Code != status || e.Get("type").Str != "error" || e.Get("error.type").Str != kind ||
			e.Get("error.details.error_code").Str != code ||
			!strings.Contains(e.Get("error.message").Str, message) || e.Get("error.details.unsupported").Raw != unsupported {
			t.Errorf("%s: status %d, %s", what, w.Code, w.Body)
		}
	}
	const create, invalid = `{"type":"create"}`, "invalid_request_error"

	first := id(post(system, create, hi))
	const lost = "No thread state was found for the requested `previous_message_id`. Replay the full conversation"
	expect("unknown", post(system, goOn("msg_none"), more), 404, "not_found_error", "thread_not_found", lost, "")
	expect("another's", post(system, goOn(first), more, "Anthropic-Beta", threadsBeta, "X-Api-Key", "b"), 404,
		"not_found_error", "thread_not_found", lost, "")
	expect("no beta", post(system, goOn(first), more, "X-Api-Key", "a"), 400, invalid, "", "Extra inputs", "")
	expect("no kind", post(system, `{"type":"fork"}`, more), 400, invalid, "", "thread.type", "")
	expect("changed", post(`"output_config":{"effort":"low"},"system":"Other.",`, goOn(first), more), 400, invalid,
		"thread_fingerprint_mismatch", "system, output_config", "")
	expect("unsupported", post(system+`"fallbacks":[],"context_management":{},`, goOn(first), more), 400, invalid,
		"thread_unsupported_request", "thread", `["fallbacks","context_management"]`)
	expect("markers",
		post(system, create, `{"role":"user","content":[{"type":"text","text":"Hi.","cache_control":{"type":"ephemeral"}}]}`),
		400, invalid, "thread_unsupported_request", "thread", `["cache_control"]`)

	var meanwhile *httptest.ResponseRecorder
	inside = func() { meanwhile = post("", goOn(first), more) }
	second := id(post("", goOn(first), more))
	expect("in flight", meanwhile, 400, invalid, "thread_continue_in_flight", "thread", "")
	expect("twice", post(system, goOn(first), more), 400, invalid, "thread_already_continued", "already", "")

	now = now.Add(threadLife)
	third := id(post(system, goOn(second), more))
	now = now.Add(threadLife + time.Second)
	expect("expired", post(system, goOn(third), more), 404, "not_found_error", "thread_not_found", lost, "")
}

// TestThreadPrompt: the prompt of a continuing request is that of the whole conversation.
func TestThreadPrompt(t *testing.T) {
	h := &Handler{Cache: newCache(t, "anthropic-5m")}
	beta := []string{"Anthropic-Beta", threadsBeta}
	tokens := func(s string) int64 { return gjson.Get(s, "usage.input_tokens").Int() }
	const head, hi, more = `{"model":"claude-opus-4-6","max_tokens":9,"messages":[`, `{"role":"user","content":"Hi."}`,
		`{"role":"user","content":"More."}`
	a := ask(h, "/v1/messages", head+hi+`],"system":"You are an agent.","thread":{"type":"create"}}`,
		beta...).Body.String()
	b := ask(h, "/v1/messages", head+more+`],"thread":{"type":"continue","previous_message_id":"`+gjson.Get(a, "id").Str+
		`"}}`, beta...).Body.String()
	c := ask(h, "/v1/messages", head+hi+`,{"role":"assistant","content":`+gjson.Get(a, "content").Raw+`},`+more+
		`],"system":"You are an agent."}`).Body.String()
	if tokens(b) != tokens(c) || tokens(b) <= tokens(a) {
		t.Errorf("%d tokens, whole %d, before %d", tokens(b), tokens(c), tokens(a))
	}
}

// TestStoredResponses: a request that continues a stored response gets the stored items prepended,
// any number of times. Other responses are not found.
func TestStoredResponses(t *testing.T) {
	h := &Handler{Cache: newCache(t, "openai-responses")}
	post := func(body string, key string) *httptest.ResponseRecorder {
		return ask(h, "/v1/responses", body, "Authorization", "Bearer "+key)
	}
	tokens := func(w *httptest.ResponseRecorder) int64 {
		return gjson.Get(w.Body.String(), "usage.input_tokens").Int()
	}
	a := post(`{"model":"gpt-5.6","input":"Hi."}`, "a")
	id := gjson.Get(a.Body.String(), "id").Str
	next := fmt.Sprintf(`{"model":"gpt-5.6","input":[{"role":"user","content":"More."}],"previous_response_id":%q}`, id)
	whole := post(`{"model":"gpt-5.6","store":false,"input":[{"role":"user","content":"Hi."},`+
		strings.Trim(gjson.Get(a.Body.String(), "output").Raw, "[]")+`,{"role":"user","content":"More."}]}`, "a")
	for range 2 {
		if b := post(next, "a"); b.Code != http.StatusOK || tokens(b) != tokens(whole) || tokens(b) <= tokens(a) {
			t.Errorf("status %d, %d tokens, want %d: %s", b.Code, tokens(b), tokens(whole), b.Body)
		}
	}
	for what, w := range map[string]*httptest.ResponseRecorder{
		"another's":  post(next, "b"),
		"not stored": post(strings.Replace(next, id, gjson.Get(whole.Body.String(), "id").Str, 1), "a"),
	} {
		e := gjson.Get(w.Body.String(), "error")
		if w.Code != http.StatusBadRequest || e.Get("type").Str != "invalid_request_error" ||
			e.Get("code").Str != "previous_response_not_found" || e.Get("param").Str != "previous_response_id" {
			t.Errorf("%s: status %d, %s", what, w.Code, w.Body)
		}
	}
}
