// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

func TestRefusedEditsFreezeTheConversation(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 10, false)
	v, err := wire.Parse(wire.Anthropic, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	if !x.Prompt.Edited {
		t.Fatal("nothing to refuse")
	}
	x.Rejected()
	if x.Prompt.Edited || string(x.Prompt.Body.Bytes()) != s.body() {
		t.Error("the body is not the original")
	}
	x.Accepted(0)
	x.Commit(&wire.Turn{Done: true}, s.now)
	s.turn(70, "/src/z.go", long("z"))
	if y := s.send(wire.Turn{Done: true}); y.Prompt.Edited || y.Prompt.Markers != 0 {
		t.Error("edited again")
	}
}

// If the request without edits is refused, too, the edits were not the reason: the conversation is
// edited as before.
func TestAcquittedEdits(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 10, false)
	v, err := wire.Parse(wire.Anthropic, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	edited := string(x.Prompt.Body.Bytes())
	x.Rejected()
	if x.Prompt.Edited {
		t.Fatal("the body is not the original")
	}
	x.Cleared()
	x.Abandon()
	if y := s.send(wire.Turn{Done: true}); !y.Prompt.Edited || string(y.Prompt.Body.Bytes()) != edited {
		t.Error("not edited as before")
	}
	for _, l := range s.s.Report(s.now).Conversations {
		if l.Frozen {
			t.Error("a conversation is left alone")
		}
	}
}

// A refused edit in the very first request is remembered even if the response to the original is
// cut off.
func TestRefusedFirstRequest(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	for i := range 10 {
		s.turn(i, "/a.go", long("a"))
	}
	v, err := wire.Parse(wire.Anthropic, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	x.Rejected()
	x.Accepted(0)
	x.Abandon()
	if y := s.send(wire.Turn{Done: true}); y.Prompt.Edited {
		t.Error("edited again")
	}
}

// readsOf is a request with so many calls that read files, after thinking.
func readsOf(files int) []byte {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"Fix the build."}`)
	for i := range files {
		body = fmt.Appendf(body,
			`,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s%d"},{"type":"tool_use",`+
				`"id":"toolu_%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]}`, i, i, i)
		body = fmt.Appendf(body, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`,
			i, strings.Repeat("a line of the file\n", 300))
	}
	return append(body, "]}"...)
}

// begun sends a conversation with so many files, and begins the next request.
func begun(p *process, files int) (*Transaction, *sessioncache.Session) {
	for i := range files {
		p.send(readsOf(i), wire.Turn{Done: true}, time.Unix(1e9+int64(i), 0), nil)
	}
	return next(p, files)
}

// next begins one request.
func next(p *process, files int) (*Transaction, *sessioncache.Session) {
	v, err := wire.Parse(wire.Anthropic, readsOf(files), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	s := p.store.Acquire(p.t.Context(), restoreKey)
	return p.p.Begin(v, s, time.Unix(1e9+int64(files), 0)), s
}

// Edits that thinking has seen are sent as they were at the start of the request, although another
// process has continued the conversation meanwhile.
func TestRefusedWhileOthersGoOn(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := node(t, binding, shelf), node(t, binding, shelf)
	const files = 4
	x, s := begun(one, files)
	edit := x.req.States[6].Edit
	if edit == nil || x.req.match.Common <= 6 {
		t.Fatal("nothing to keep")
	}
	for i := range 2 {
		other.send(readsOf(files+i), wire.Turn{Done: true}, time.Unix(2e9, 0), nil)
	}
	one.store.Release(one.store.Acquire(t.Context(), restoreKey)) // adopts the other process's state
	x.Rejected()
	if !json.Valid(x.Prompt.Body.Bytes()) || !bytes.Contains(x.Prompt.Body.Bytes(), edit.Value) {
		t.Errorf("sent in its place: %s", x.Prompt.Body.Bytes())
	}
	one.store.Release(s)
}

// Another process also leaves a conversation alone after a refused edit, although the refused
// request never got a response.
func TestRefusedEditsDoNotOutlive(t *testing.T) {
	p := newProcess(t, keeping, new(storetest.Shelf))
	x, s := begun(p, 4)
	if !x.Prompt.Edited || !x.Claim(t.Context(), p.store) {
		t.Fatal("nothing to refuse")
	}
	x.Rejected()
	x.Accepted(0)
	x.Abandon()
	p.store.Release(s)
	p.restart()
	if x, _ = next(p, 4); !x.Without().Has(wire.EditText) || x.Prompt.Edited {
		t.Error("edited again")
	}
}

// tooled is a request of an agent after so many turns, with tools, long instructions, and optional
// thinking.
func tooled(turns int, thinks bool) []byte {
	body := fmt.Appendf(nil,
		`{"model":"m","tools":[{"name":"Read","description":"Reads a file.","input_schema":{"type":"object"}},`+
			`{"name":"Bash","input_schema":{"type":"object"}}],"system":%q,"messages":[{"role":"user","content":"Fix the `+
			`build."}`,
		strings.Repeat("Follow the rules of the house. ", 600))
	for i := range turns {
		thinking := ""
		if thinks {
			thinking = fmt.Sprintf(`{"type":"thinking","thinking":"t","signature":"s%d"},`, i)
		}
		body = fmt.Appendf(body,
			`,{"role":"assistant","content":[%s{"type":"text","text":"done %d"}]},{"role":"user","content":"go on"}`, thinking,
			i)
	}
	return append(body, "]}"...)
}

// Only the kinds of edits removed from an accepted request stay off from then on, in this
// conversation and after a restart.
func TestRefusedKinds(t *testing.T) {
	const tools, markers = wire.EditTools, wire.EditMarkers
	for _, c := range []struct {
		name     string
		rules    pricing.Rules
		thinks   bool
		turns    int // turns before the refusal
		off      wire.EditKinds
		want     wire.EditKinds // the kinds that count as refused
		declares bool           // the second request still has the tool
	}{
		{"first request", keeping, false, 0, 0, tools | markers, false},
		{"later, without thinking", binding, false, 2, 0, tools | markers, false},
		{"later, with thinking bound to the tool", binding, true, 2, 0, markers, true},
		{"tools left out before", keeping, false, 0, tools, markers, false},
		{"markers left out before", keeping, false, 0, markers, tools, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(t, c.rules, new(storetest.Shelf))
			for i := range c.turns {
				p.send(tooled(i, c.thinks), wire.Turn{Done: true}, time.Unix(1e9+int64(i), 0), nil)
			}
			begin := func(turns int, off wire.EditKinds) (*Transaction, *sessioncache.Session) {
				v, err := wire.Parse(wire.Anthropic, tooled(turns, c.thinks), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := p.store.Acquire(t.Context(), restoreKey)
				return p.p.BeginWithout(v, s, time.Unix(1e9+int64(turns), 0), off), s
			}
			x, s := begin(c.turns, c.off)
			if !x.Prompt.Edited {
				t.Fatal("nothing to refuse")
			}
			x.Rejected()
			if got := bytes.Contains(x.Prompt.Body.Bytes(), []byte(ExpandTool)); got != c.declares {
				t.Errorf("the tool in the second request: %t, want %t", got, c.declares)
			}
			if !c.declares && string(x.Prompt.Body.Bytes()) != string(x.req.View.Raw) {
				t.Error("the second request is not the original")
			}
			if got := x.Accepted(0); got != c.want {
				t.Errorf("got %v refused, want %v", got, c.want)
			}
			x.Commit(&wire.Turn{Done: true}, time.Unix(1e9+int64(c.turns), 0))
			p.store.Release(s)
			for _, when := range []string{"next", "after a restart"} {
				y, s := begin(c.turns+1, 0)
				if tool := bytes.Contains(y.Prompt.Body.Bytes(), []byte(ExpandTool)); tool != c.declares || y.Prompt.Markers > 0 &&
					c.want.Has(markers) {
					t.Errorf("%s: tool %t, %d markers", when, tool, y.Prompt.Markers)
				}
				if !y.Without().Has(c.want) {
					t.Errorf("%s: goes without %v, want %v", when, y.Without(), c.want)
				}
				y.Abandon()
				p.store.Release(s)
				p.restart()
			}
		})
	}
}
