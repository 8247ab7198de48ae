// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// withAgents is a site before a server with the REST API.
func withAgents(s *restServer, options string) string {
	return "llm_cache {\n upstream letta {\n  model coder openai/gpt-4.1-mini\n  agents {\n   embedding " +
		"openai/text-embedding-3-small\n" + options + "  }\n }\n}\nreverse_proxy " + s.Listener.Addr().String()
}

// TestLettaAgents: a conversation has an agent of its own at a server with the REST API,
// and it is the same one over a restart of Caddy. It is sent what is new, and all of it where it
// is not known what it holds; the system prompt is in a memory block, which is written
// when it has changed.
func TestLettaAgents(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%t", path, stream), func(t *testing.T) {
				s := newRESTServer(t)
				site := withAgents(s, "tools web_search\n")
				c := &lettaClient{t: t, p: start(t, site), path: path, system: "Be brief.", stream: stream}
				before := 0
				for i := range 10 {
					wantCalls, wantHeld := "", "delta; "
					switch i {
					case 0:
						wantCalls, wantHeld = "GET, POST", "whole; cause=new"
					case 2:
						c.system = "Be long."
						wantCalls = "PATCH core-memory/blocks/system_prompt"
					case 4: // the server has lost the agent
						s.forget()
						wantCalls, wantHeld = "GET, POST", "whole; cause=response_not_found"
						before = 2 * i
					case 7: // Caddy has lost all
						c.p.caddy.Stop(t)
						c.p.reload(site)
						wantCalls, wantHeld = "GET, GET core-memory/blocks/system_prompt, PATCH reset-messages", "whole; cause=new"
						before = 2 * i
					}
					answer, held := c.ask(fmt.Sprintf("question %d", i+1))
					if want := fmt.Sprintf("answer %d", i+1); answer != want || !strings.HasPrefix(held, wantHeld) {
						t.Fatalf("turn %d: %q, %q; want %q, %q", i, answer, held, want, wantHeld)
					}
					calls, messages := s.asked()
					if sent := 1; calls != wantCalls || messages != sent && !(i == 4 && messages == 2) {
						t.Errorf("turn %d: asked for %q and %d messages, want %q", i, calls, messages, wantCalls)
					}
					all := s.all()
					if len(all) != 1 || all[0].blocks["system_prompt"] != c.system || all[0].model != "openai/gpt-4.1-mini" {
						t.Fatalf("turn %d: agents %+v", i, all)
					}
					want := c.transcript()
					if before > 0 {
						want = append([]string{"user: " + told(want[:before]) + strings.TrimPrefix(want[before], "user: ")},
							want[before+1:]...)
					}
					if got := all[0].said; strings.Join(got, "\n") != strings.Join(want, "\n") {
						t.Fatalf("turn %d: the model has seen\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			})
		}
	}
}

// TestLettaAgentsUsage: what an agent has taken is told, and what it thinks and does with
// its tools is left out.
func TestLettaAgentsUsage(t *testing.T) {
	s := newRESTServer(t)
	p := start(t, withAgents(s, ""))
	for _, stream := range []bool{false, true} {
		res := p.post("/v1/responses", fmt.Sprintf(`{"model":"coder","stream":%t,"input":"hi"}`, stream))
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v: %s", res.Status, err, raw)
		}
		last := gjson.ParseBytes(raw)
		if stream {
			events := strings.Split(strings.TrimSpace(string(raw)), "\n\n")
			last = gjson.Parse(strings.SplitN(events[len(events)-1], "data: ", 2)[1]).Get("response")
		}
		if got := last.Get("[status,output.#,output.0.content.0.text,usage.input_tokens," +
			"usage.input_tokens_details.cached_tokens,usage.output_tokens]").Raw; got != `["completed",1,"answer 1",50,30,2]` {
			t.Errorf("stream=%t: %s of %s", stream, got, raw)
		}
		for _, own := range []string{"web_search", "Hm."} {
			if strings.Contains(string(raw), own) {
				t.Errorf("stream=%t: %q in %s", stream, own, raw)
			}
		}
	}
}

// TestLettaAgentsPreface: where a server takes no memory blocks, the system prompt goes
// with a message, once, and once more when it has changed.
func TestLettaAgentsPreface(t *testing.T) {
	s := newRESTServer(t)
	s.set(func(s *restState) { s.noBlocks = true })
	c := &lettaClient{
		t: t, p: start(t, withAgents(s, "")), path: "/v1/chat/completions", system: "Be brief.",
		stream: true,
	}
	c.ask("one")
	c.ask("two")
	c.system = "Be long."
	if _, held := c.ask("three"); !strings.HasPrefix(held, "delta") {
		t.Errorf("another system prompt: %q", held)
	}
	c.ask("four")
	reminder := func(text string) string { return "<system-reminder>\n" + text + "\n</system-reminder>\n\n" }
	want := c.transcript()
	want[0] = "user: " + reminder("Be brief.") + "one"
	want[4] = "user: " + reminder("Be long.") + "three"
	if got := s.all(); len(got) != 1 || strings.Join(got[0].said, "\n") != strings.Join(want, "\n") {
		t.Errorf("the model has seen\n%+v\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if calls, _ := s.asked(); calls != "GET, POST, POST" {
		t.Errorf("asked for %q", calls)
	}
	// Blocks that are taken away later.
	s.set(func(s *restState) { s.noBlocks = false })
	d := &lettaClient{t: t, p: c.p, path: c.path, system: "Be brief."}
	d.ask("another one")
	s.set(func(s *restState) { s.noBlocks = true })
	d.system = "Be long."
	d.ask("and another")
	d.ask("and one more")
	want = d.transcript()
	want[2] = "user: " + reminder("Be long.") + "and another"
	if got := s.all(); len(got) != 2 || strings.Join(got[1].said, "\n") != strings.Join(want, "\n") {
		t.Errorf("the model has seen\n%+v\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestLettaAgentsAgain: a retry, and a request that says nothing new, are answered by what
// is known; another answer that is wished for is asked for with an empty agent.
func TestLettaAgentsAgain(t *testing.T) {
	s := newRESTServer(t)
	c := &lettaClient{t: t, p: start(t, withAgents(s, "")), path: "/v1/chat/completions", system: "s", stream: true}
	c.ask("one")
	c.ask("two")
	s.asked()
	if text, _ := c.send(); text != "" {
		t.Errorf("nothing new was answered by %q", text)
	}
	c.said = c.said[:len(c.said)-1]
	if text, _ := c.send("X-Stainless-Retry-Count", "1"); text != "answer 2" {
		t.Errorf("a retry was answered by %q", text)
	}
	if calls, messages := s.asked(); calls != "" || messages > 0 {
		t.Errorf("asked for %q and %d messages", calls, messages)
	}
	if text, _ := c.send(); text != "answer 2" {
		t.Errorf("another answer: %q", text)
	}
	if calls, messages := s.asked(); calls != "PATCH reset-messages" || messages != 1 {
		t.Errorf("asked for %q and %d messages", calls, messages)
	}
	c.said = append(c.said, map[string]any{"role": "assistant", "content": "answer 2"})
	if _, held := c.ask("three"); !strings.HasPrefix(held, "delta") {
		t.Errorf("after another answer: %q", held)
	}
}

// TestLettaAgentsFails: what goes wrong at the server is told in the client's API's words,
// and an agent of which nobody knows what it has heard begins anew.
func TestLettaAgentsFails(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := newRESTServer(t)
		c := &lettaClient{t: t, p: start(t, withAgents(s, "")), path: "/v1/chat/completions", system: "s", stream: stream}
		c.ask("one")
		c.said = append(c.said, map[string]any{"role": "user", "content": "two"})
		for _, stop := range []string{"llm_api_error", "requires_approval"} {
			s.set(func(s *restState) { s.stop = stop })
			res := c.p.post(c.path, c.body(), "X-Session-Id", "chat-1")
			raw, _ := io.ReadAll(res.Body)
			if stream == (res.StatusCode >= 400) || !strings.Contains(string(raw), `"error"`) {
				t.Errorf("stream=%t, %s: %s: %s", stream, stop, res.Status, raw)
			}
		}
		s.set(func(s *restState) { s.busy = true })
		res := c.p.post(c.path, c.body(), "X-Session-Id", "chat-1")
		raw, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusConflict || res.Header.Get("Retry-After") != "7" ||
			!strings.Contains(string(raw), "another request") {
			t.Errorf("stream=%t: a busy agent: %s, %v: %s", stream, res.Status, res.Header, raw)
		}
		s.set(func(s *restState) { s.busy = false })
		s.asked()
		text, _ := c.send()
		if calls, _ := s.asked(); text != "answer 2" || calls != "PATCH reset-messages" {
			t.Errorf("stream=%t: after that: %q, asked for %q", stream, text, calls)
		}
		if all := s.all(); len(all) != 1 || len(all[0].said) != 2 {
			t.Errorf("stream=%t: %+v", stream, all)
		}
		// A model that the server does not know is the client's business.
		res = c.p.post(c.path, `{"model":"unknown","messages":[{"role":"user","content":"hi"}]}`)
		if raw, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest ||
			!strings.Contains(string(raw), "no handle") {
			t.Errorf("an unknown model: %s: %s", res.Status, raw)
		}
	}
}

// TestLettaAgentsRefuses: tools of the client are refused before the server is asked.
func TestLettaAgentsRefuses(t *testing.T) {
	s := newRESTServer(t)
	p := start(t, withAgents(s, ""))
	res := p.post("/v1/chat/completions",
		`{"model":"coder","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"ls",`+
			`"parameters":{"type":"object","properties":{}}}}]}`)
	if raw, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(raw), "runs tools of its own") {
		t.Errorf("%s: %s", res.Status, raw)
	}
	if calls, messages := s.asked(); calls != "" || messages > 0 {
		t.Errorf("asked for %q and %d messages", calls, messages)
	}
	// Images go as they are.
	res = p.post("/v1/responses",
		`{"model":"coder","input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},`+
			`{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]}`)
	if all := s.all(); res.StatusCode != http.StatusOK || len(all) != 1 || all[0].said[0] != "user: What is it?AA==" {
		t.Errorf("%s: %+v", res.Status, all)
	}
}

// TestLettaAgentsApart: tenants, sessions and conversations have agents of their own, and
// who names no session finds none of an earlier process.
func TestLettaAgentsApart(t *testing.T) {
	s := newRESTServer(t)
	site := withAgents(s, "")
	p := start(t, site)
	body := func(first string) string {
		return fmt.Sprintf(`{"model":"coder","messages":[{"role":"system","content":"s"},{"role":"user","content":%q}]}`,
			first)
	}
	ask := func(first string, headers ...string) {
		t.Helper()
		if res := p.post("/v1/chat/completions", body(first), headers...); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	for _, headers := range [][]string{
		{"Authorization", "Bearer a", "X-Session-Id", "1"},
		{"Authorization", "Bearer b", "X-Session-Id", "1"},
		{"Authorization", "Bearer a", "X-Session-Id", "2"},
		{},
	} {
		ask("hi", headers...)
		ask("title", headers...)
	}
	tags := map[string]bool{}
	for _, a := range s.all() {
		tags[a.session] = true
	}
	if len(s.all()) != 8 || len(tags) != 8 {
		t.Errorf("%d agents of %d names, want 8", len(s.all()), len(tags))
	}
	p.caddy.Stop(t)
	p.reload(site)
	ask("hi", "Authorization", "Bearer b", "X-Session-Id", "1")
	if n := len(s.all()); n != 8 {
		t.Errorf("a session with a name: %d agents", n)
	}
	ask("hi")
	if n := len(s.all()); n != 9 {
		t.Errorf("a session without a name: %d agents", n)
	}
}

// TestLettaAgentsBound: of agents no more are known than there may be; the others are found
// again. The admin API shows those that are known.
func TestLettaAgentsBound(t *testing.T) {
	s := newRESTServer(t)
	p := start(t, withAgents(s, "max_agents 2\n"))
	ask := func(session string) {
		t.Helper()
		res := p.post("/v1/chat/completions",
			`{"model":"coder","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`, "X-Session-Id",
			session)
		if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, err)
		}
	}
	for _, session := range []string{"1", "2", "3"} {
		ask(session)
	}
	res, err := http.Get("http://" + p.admin + "/llm_cache/agents") //nolint:noctx // it answers at once
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	list, all := gjson.GetBytes(raw, "agents").Array(), s.all()
	if len(list) != 2 || list[0].Get("agent").Str != all[1].id || list[1].Get("agent").Str != all[2].id ||
		list[0].Get("session").Str == "" || list[0].Get("prompt").Str == "" {
		t.Errorf("the admin API shows %s", raw)
	}
	if at, err := time.Parse(time.RFC3339, list[0].Get("expires").Str); err != nil ||
		!at.After(time.Now().Add(time.Hour)) {
		t.Errorf("it expires at %s, %v", list[0].Get("expires"), err)
	}
	s.asked()
	ask("1")
	if calls, _ := s.asked(); calls != "GET, GET core-memory/blocks/system_prompt, PATCH reset-messages" ||
		len(s.all()) != 3 {
		t.Errorf("asked for %q; %d agents", calls, len(s.all()))
	}
}

// TestLettaAgentsAtOnce: requests of one conversation wait for each other.
func TestLettaAgentsAtOnce(t *testing.T) {
	s := newRESTServer(t)
	c := &lettaClient{t: t, p: start(t, withAgents(s, "")), path: "/v1/chat/completions", system: "s"}
	c.ask("one")
	c.said = append(c.said, map[string]any{"role": "user", "content": "two"})
	wait := make(chan struct{})
	s.set(func(s *restState) { s.wait = wait })
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if text, _ := c.send(); text != "answer 2" {
				t.Errorf("%q", text)
			}
		})
	}
	close(wait)
	all.Wait()
}
