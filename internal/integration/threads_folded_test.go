// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// coldAfter is a site before a provider whose cache lives so long. Where that is a second,
// much is folded.
func coldAfter(k *keeper, upstream, ttl string) string {
	risk := ""
	if ttl == "1s" {
		risk = "planner {\nrisk 100\n}\n"
	}
	return "llm_cache {\nupstream " + upstream + " {\ncache_ttl " + ttl + "\n}\n" + risk +
		"expand off\n}\nreverse_proxy " + k.Listener.Addr().String()
}

// source is a file that was read in a turn.
func source(turn int) string {
	var b strings.Builder
	for i := range 90 {
		fmt.Fprintf(&b, "func handle%dOf%d(input string) (string, error) { return parse%d(input) }\n", i, turn, i*turn)
	}
	return b.String()
}

// colder has the provider's cache be cold for the next request.
func (p *proxy) colder(site string) {
	p.reload(site)
	time.Sleep(1100 * time.Millisecond) // longer than its cache lives: that more time goes by does no harm
}

// unmarked is a message without the markers, which each request sets anew.
func unmarked(message string) string {
	return strings.ReplaceAll(message, `,"cache_control":{"type":"ephemeral"}`, "")
}

// TestThreadsFolded: where a conversation that the client keeps in a thread is folded, the
// provider gets all of it anew, as we have it, and holds that from then on; the client
// notices nothing.
func TestThreadsFolded(t *testing.T) {
	for _, bound := range []bool{false, true} {
		t.Run(fmt.Sprint("bound ", bound), func(t *testing.T) {
			k := newKeeper(t)
			p := start(t, coldAfter(k, "anthropic", "1h"))
			c := &threader{t: t, p: p, key: "a", stream: true}
			next := func(message string) response {
				t.Helper()
				body := c.body(c.answer, c.whole(), message)
				if bound {
					body = strings.Replace(body, "claude-opus-4-6", "claude-opus-5-5", 1)
				}
				res, answer := c.send(body)
				c.take(res, answer)
				if n := len(k.prompt().Get("messages").Array()); n != c.messages-1 {
					t.Fatalf("turn %d: the model has %d messages, want %d", c.turn, n, c.messages-1)
				}
				return res
			}
			resultOf := func(content string) string {
				text, _ := json.Marshal(content)
				return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + c.call + `","content":` + string(text) +
					`}]}`
			}
			result := func() string { return resultOf(source(c.turn)) }
			body := c.body("", c.whole(), userText("Go."))
			if bound {
				body = strings.Replace(body, "claude-opus-4-6", "claude-opus-5-5", 1)
			}
			res, answer := c.send(body)
			c.take(res, answer)
			if bound { // within a run of calls nothing is folded there, however cold it is
				for range 8 {
					next(result())
				}
				whole := len(k.prompt().Get("messages").Raw)
				p.colder(coldAfter(k, "anthropic", "1s"))
				if retained := next(result()).Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(retained, "delta") ||
					len(k.prompt().Get("messages").Raw) < whole {
					t.Errorf("within a run of calls: %s", retained)
				}
				return
			}
			p.reload(strings.Replace(coldAfter(k, "anthropic", "5m"), "expand off", "planner {\nrisk 100\n}\nexpand off", 1))
			said := 0
			for {
				said += len(source(c.turn))
				retained := next(result()).Header.Get("X-Llm-Cache-Retained")
				if strings.HasPrefix(retained, "whole; cause=diverged") {
					break
				}
				if !strings.HasPrefix(retained, "delta") || c.turn > 200 {
					t.Fatalf("turn %d went as %s", c.turn, retained)
				}
			}
			folded := k.prompt().Get("messages")
			if got := gjson.Get(k.last().body, "thread.type").Str; got != "create" || len(folded.Raw) > said {
				t.Fatalf("it went as %s, with %d bytes of messages, of %d", got, len(folded.Raw), said)
			}
			// The request after a fold has the marker from which the next fold goes on.
			var sent []string
			for len(sent) < 20 && !slices.Contains(sent, "delta") {
				form, _, _ := strings.Cut(next(resultOf("done")).Header.Get("X-Llm-Cache-Retained"), "; sent=")
				form, _, _ = strings.Cut(form, "; whole=")
				if sent = append(sent, form); form == "whole; cause=diverged" {
					folded = k.prompt().Get("messages")
				}
			}
			if n := len(sent); n < 2 || sent[n-1] != "delta" || sent[n-2] != "whole; cause=writes_entry" {
				t.Fatalf("then it went as %q, want the whole with a marker and then deltas", sent)
			}
			now := k.prompt().Get("messages").Array()
			for i, m := range folded.Array() {
				if unmarked(m.Raw) != unmarked(now[i].Raw) {
					t.Errorf("message %d was %s, is %s", i, m.Raw, now[i].Raw)
				}
			}
			if s := p.sessions(); len(s) != 1 || len(s[0].Conversations) != 1 {
				t.Errorf("sessions are %+v, want one conversation", s)
			}
		})
	}
}

// TestResponsesFolded: the same for what goes on from stored responses.
func TestResponsesFolded(t *testing.T) {
	k := newKeeper(t)
	warm := strings.Replace(coldAfter(k, "openai", "1h"), "expand off", "planner {\nrisk 0.25\n}\nexpand off", 1)
	p := start(t, warm)
	id, call, turn := "", "", 0
	next := func() (retained string) {
		t.Helper()
		text, _ := json.Marshal(source(turn))
		items, previous := `{"role":"user","content":"Go."}`, ""
		if turn > 0 {
			items, previous = `{"type":"function_call_output","call_id":"`+call+`","output":`+string(text)+`}`,
				`"previous_response_id":"`+id+`",`
		}
		res := p.post("/v1/responses", `{"model":"gpt-4.1",`+previous+
			`"include":["reasoning.encrypted_content"],"instructions":"`+strings.Repeat("Be brief. ", 1000)+
			`","tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],"input":[`+items+`]}`, "Authorization",
			"Bearer a")
		answer := read(t, res)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("turn %d: status %d: %s", turn, res.StatusCode, answer)
		}
		id, call = gjson.Get(answer, "id").Str, gjson.Get(answer, `output.#(type=="function_call").call_id`).Str
		if n := len(k.prompt().Get(`input.#(type=="function_call_output")#`).Array()); n != turn {
			t.Fatalf("turn %d: the model has %d results", turn, n)
		}
		turn++
		return res.Header.Get("X-Llm-Cache-Retained")
	}
	next()
	for range 8 {
		if retained := next(); !strings.HasPrefix(retained, "delta") {
			t.Fatalf("turn %d went as %s", turn, retained)
		}
	}
	whole := len(k.prompt().Get("input").Raw)
	p.colder(coldAfter(k, "openai", "1s"))
	retained := next()
	folded := k.prompt().Get("input")
	if !strings.HasPrefix(retained, "whole; cause=diverged") ||
		gjson.Get(k.last().body, "previous_response_id").Exists() ||
		len(folded.Raw) > whole {
		t.Fatalf("cold it went as %s, with %d bytes of input, before %d", retained, len(folded.Raw), whole)
	}
	p.reload(warm)
	for range 3 {
		if retained := next(); !strings.HasPrefix(retained, "delta") {
			t.Errorf("then %s", retained)
		}
		now := k.prompt().Get("input").Array()
		for i, item := range folded.Array() {
			if item.Raw != now[i].Raw {
				t.Errorf("item %d was %s, is %s", i, item.Raw, now[i].Raw)
			}
		}
	}
}
