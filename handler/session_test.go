// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

func TestSessionID(t *testing.T) {
	view, err := wire.Parse(wire.Anthropic,
		[]byte(`{"model":"m","max_tokens":1,"metadata":{"user_id":"{\"session_id\":\"from-body\"}"},`+
			`"messages":[{"role":"user","content":"hi"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Each header in turn is the first that counts.
	ordered := []struct{ name, value, want string }{
		{"X-Conversation", "configured", "configured"},
		{"X-Claude-Code-Agent-Id", "agent", "claude/agent"},
		{"X-Claude-Code-Session-Id", "claude", "claude"},
		{"Session-Id", "codex", "codex"},
		{"X-Session-Affinity", "opencode", "opencode"},
	}
	h := http.Header{}
	for _, o := range ordered {
		h.Set(o.name, o.value)
	}
	for _, o := range ordered {
		if got := namedID(h, "X-Conversation", view); got != o.want {
			t.Errorf("got %q, want %q", got, o.want)
		}
		h.Del(o.name)
	}
	if got := namedID(h, "X-Conversation", view); got != "from-body" {
		t.Errorf("got %q, want from-body", got)
	}
	h.Set("Session-Id", strings.Repeat("x", 10_000))
	if got := namedID(h, "X-Conversation", view); len(got) > maxID || strings.Contains(got, "x") {
		t.Errorf("got %d characters", len(got))
	}
}

// TestBeginning: a conversation without an id is known by how it began, for as
// long as it goes on, and markers do not matter.
func TestBeginning(t *testing.T) {
	id := func(f wire.Format, body string) string {
		t.Helper()
		v, err := wire.Parse(f, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		return beginning(v)
	}
	const head = `{"model":"m","max_tokens":1,"system":"S","messages":[{"role":"user","content":"one"}`
	first := id(wire.Anthropic, head+`]}`)
	if got := id(wire.Anthropic,
		head+`,{"role":"assistant","content":"a"},{"role":"user","content":"two"}]}`); got != first {
		t.Error("a longer conversation has another id")
	}
	if got := id(wire.Anthropic, strings.Replace(head, `"one"`,
		`[{"type":"text","text":"one","cache_control":{"type":"ephemeral"}}]`, 1)+`]}`); got != first {
		t.Error("a marker makes another id")
	}
	if got := id(wire.Anthropic, strings.Replace(head, "one", "two", 1)+`]}`); got == first {
		t.Error("another first message has the same id")
	}
	if got := id(wire.Anthropic, strings.Replace(head, `"S"`, `"T"`, 1)+`]}`); got == first {
		t.Error("another system prompt has the same id")
	}
	const chat = `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"one"}`
	if id(wire.OpenAIChat, chat+`]}`) != id(wire.OpenAIChat,
		chat+`,{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`) {
		t.Error("a longer chat has another id")
	}
	if id(wire.OpenAIChat, chat+`]}`) == id(wire.OpenAIChat, strings.Replace(chat, "one", "two", 1)+`]}`) {
		t.Error("another chat has the same id")
	}
	// Gemini CLI tells its environment first, in a content of its own.
	const gemini = `{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"role":"user","parts":[{"text":"It is ` +
		`Monday."}]},{"role":"user","parts":[{"text":"one"}]}`
	first = id(wire.Gemini, gemini+`]}`)
	if got := id(wire.Gemini,
		gemini+`,{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]}`); got != first {
		t.Error("a longer conversation with Gemini has another id")
	}
	if got := id(wire.Gemini, strings.Replace(gemini, "Monday", "Tuesday", 1)+`]}`); got != first {
		t.Error("a conversation with Gemini has another id once it is resumed")
	}
	if got := id(wire.Gemini, strings.Replace(gemini, "one", "two", 1)+`]}`); got == first {
		t.Error("another conversation with Gemini has the same id")
	}
}

// TestSaid: a conversation that nobody names stays one when its client changes how it
// begins, as qwen-code does with the day that it tells in front of the first prompt.
func TestSaid(t *testing.T) {
	h := attached(t, pipeline.Options{})
	at := time.Now()
	send := func(body string, turn wire.Turn) string {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://a/v1/chat/completions", nil)
		x := prepared(t, h, r, []byte(body))
		turn.Done, turn.Usage = true, wire.Usage{Uncached: 100, Output: 5, Reported: true}
		x.Edit.Commit(&turn, at)
		h.site.store.Release(x.session)
		return x.session.ID()
	}
	chat := func(day, prompt, more string) string {
		return `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text",` +
			`"text":"Context."},` + day + `{"type":"text","text":"` + prompt + `"}]}` + more + `]}`
	}
	const monday, tuesday = `{"type":"text","text":"Monday."},`, ``
	call := wire.Turn{Calls: []wire.Call{{ID: "c1", Name: "ls", Arguments: "{}"}}}
	const called = `,{"role":"assistant","content":"Hm.","tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"a"}`
	text := wire.Turn{Text: "All good. "}
	const said = `,{"role":"assistant","content":"All good."},{"role":"user","content":"And now?"}`

	first := send(chat(monday, "Look.", ""), call)
	if got := send(chat(monday, "Look.", called), wire.Turn{Text: "Done."}); got != first {
		t.Error("the second request is another session")
	}
	if got := send(chat(tuesday, "Look.", called+said), wire.Turn{Text: "Done."}); got != first {
		t.Error("another day is another session")
	}
	second := send(chat(monday, "Tell.", ""), text)
	if got := send(chat(tuesday, "Tell.", said), wire.Turn{Text: "Done."}); got != second || second == first {
		t.Error("a resumed conversation without calls is another session")
	}
	if got := send(chat(tuesday, "Ask.", said), wire.Turn{Text: "Done."}); got == first || got == second {
		t.Error("another prompt with the same answer is the same session")
	}
	if got := send(chat(monday, "Another.", called), wire.Turn{Text: "Done."}); got == first || got == second {
		t.Error("another prompt with a call of the same id is the same session")
	}
}

// Chat clients begin all conversations with the same system prompt. Side by side
// each still costs its new bytes: what was sent before is recognised.
func TestConversationsSideBySide(t *testing.T) {
	h := attached(t, pipeline.Options{Policy: pipeline.Observe})
	answer := []byte(`{"id":"c","object":"chat.completion","model":"gpt-6","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,` +
		`"completion_tokens":5}}`)
	upstream := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write(answer)
		return err
	})
	run := rand.Text() // sessions outlive a handler that others follow
	body := func(prompt string, turns int) []byte {
		b := fmt.Appendf(nil,
			`{"model":"gpt-6","messages":[{"role":"system","content":"You are agent %s."},{"role":"user","content":%q}`,
			run, prompt)
		for i := range turns {
			b = fmt.Appendf(b, `,{"role":"assistant","content":"Done."},{"role":"user","content":"%s, part %d"}`, prompt, i)
		}
		return append(b, `]}`...)
	}
	prompts := []string{"Fix the build. " + run, "Write a test. " + run, "Explain this. " + run}
	for turns := range 4 {
		for _, prompt := range prompts {
			r := request(body(prompt, turns), "")
			r.URL.Path = "/v1/chat/completions"
			delete(r.Header, "X-Session-Id")
			b := body(prompt, turns)
			x := prepared(t, h, r, b)
			// All but the last two messages, and the opening where it is read for the first time.
			if want := [...]int{0, 0, 4, 6}[turns]; x.View.Recalled != want {
				t.Errorf("%s turn %d: %d of %d blocks recognised, want %d", prompt, turns, x.View.Recalled, len(x.View.Blocks),
					want)
			}
			h.site.store.Release(x.session)
			r = request(body(prompt, turns), "")
			r.URL.Path = "/v1/chat/completions"
			delete(r.Header, "X-Session-Id")
			if err := h.ServeHTTP(&sink{http.Header{}}, r, upstream); err != nil {
				t.Fatal(err)
			}
		}
	}
}
