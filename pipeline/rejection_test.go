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

func TestRefusedEditsFreezeTheLineage(t *testing.T) {
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
	if x.Prompt.Edited || string(x.Prompt.Body) != s.body() {
		t.Error("the body is not the original")
	}
	x.Accepted(0)
	x.Commit(&wire.Turn{Done: true}, s.now)
	s.turn(70, "/src/z.go", long("z"))
	if y := s.send(wire.Turn{Done: true}); y.Prompt.Edited || y.Prompt.Markers != 0 {
		t.Error("edited again")
	}
}

// What is refused without the edits, too, was not refused for them: the
// conversation is edited as before.
func TestAcquittedEdits(t *testing.T) {
	s := newScript(t, Options{Policy: Eager}, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 10, false)
	v, err := wire.Parse(wire.Anthropic, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	edited := string(x.Prompt.Body)
	x.Rejected()
	if x.Prompt.Edited {
		t.Fatal("the body is not the original")
	}
	x.Cleared()
	x.Abandon()
	if y := s.send(wire.Turn{Done: true}); !y.Prompt.Edited || string(y.Prompt.Body) != edited {
		t.Error("not edited as before")
	}
	for _, l := range s.s.Report(s.now).Lineages {
		if l.Frozen {
			t.Error("a conversation is left alone")
		}
	}
}

// A refused edit in the very first request is remembered even if the answer to the
// original is cut off.
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
		body = fmt.Appendf(body, `,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s%d"},{"type":"tool_use","id":"toolu_%d","name":"Read","input":{"file_path":"/src/file%d.go"}}]}`, i, i, i)
		body = fmt.Appendf(body, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`, i, strings.Repeat("a line of the file\n", 300))
	}
	return append(body, "]}"...)
}

// begun sends a conversation as far as so many files, and begins the request after that.
func begun(p *process, files int) (*Exchange, *sessioncache.Session) {
	for i := range files {
		p.send(readsOf(i), wire.Turn{Done: true}, time.Unix(1e9+int64(i), 0), nil)
	}
	return next(p, files)
}

// next begins one request.
func next(p *process, files int) (*Exchange, *sessioncache.Session) {
	v, err := wire.Parse(wire.Anthropic, readsOf(files), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	s := p.store.Acquire(restoreKey)
	return p.p.Begin(v, s, time.Unix(1e9+int64(files), 0)), s
}

// What thinking has seen goes out as it did when the request began, although another
// process has gone on with the conversation meanwhile.
func TestRefusedWhileOthersGoOn(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := node(t, binding, shelf), node(t, binding, shelf)
	const files = 4
	x, s := begun(one, files)
	edit := x.req.States[6].Edit
	if edit == nil || x.standing.match.Common <= 6 {
		t.Fatal("nothing to keep")
	}
	for i := range 2 {
		other.send(readsOf(files+i), wire.Turn{Done: true}, time.Unix(2e9, 0), nil)
	}
	one.store.Release(one.store.Acquire(restoreKey)) // which takes that in
	x.Rejected()
	if !json.Valid(x.Prompt.Body) || !bytes.Contains(x.Prompt.Body, edit.Value) {
		t.Errorf("sent in its place: %s", x.Prompt.Body)
	}
	one.store.Release(s)
}

// A conversation in which an edit was refused is left alone by the next process, too,
// although the refused request was never answered.
func TestRefusedEditsDoNotOutlive(t *testing.T) {
	p := newProcess(t, keeping, new(storetest.Shelf))
	x, s := begun(p, 4)
	if !x.Prompt.Edited || !x.Claim(p.store.(sessioncache.Claimer)) {
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

// tooled is a request of an agent with so many turns behind it: tools, long instructions, and
// thinking where it is asked for.
func tooled(turns int, thinks bool) []byte {
	body := fmt.Appendf(nil, `{"model":"m","tools":[{"name":"Read","description":"Reads a file.","input_schema":{"type":"object"}},{"name":"Bash","input_schema":{"type":"object"}}],"system":%q,"messages":[{"role":"user","content":"Fix the build."}`,
		strings.Repeat("Follow the rules of the house. ", 600))
	for i := range turns {
		thinking := ""
		if thinks {
			thinking = fmt.Sprintf(`{"type":"thinking","thinking":"t","signature":"s%d"},`, i)
		}
		body = fmt.Appendf(body, `,{"role":"assistant","content":[%s{"type":"text","text":"done %d"}]},{"role":"user","content":"go on"}`, thinking, i)
	}
	return append(body, "]}"...)
}

// Only the kinds of edits that were taken out of an accepted request are left out from then
// on, in this conversation and after a restart.
func TestRefusedKinds(t *testing.T) {
	const tools, markers = wire.EditTools, wire.EditMarkers
	for _, c := range []struct {
		name     string
		rules    pricing.Rules
		thinks   bool
		turns    int // answered before the refusal
		off      wire.EditKinds
		want     wire.EditKinds // what the refusal is blamed on
		declares bool           // the request in place of the refused one still has the tool
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
			begin := func(turns int, off wire.EditKinds) (*Exchange, *sessioncache.Session) {
				v, err := wire.Parse(wire.Anthropic, tooled(turns, c.thinks), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := p.store.Acquire(restoreKey)
				return p.p.BeginWithout(v, s, time.Unix(1e9+int64(turns), 0), off), s
			}
			x, s := begin(c.turns, c.off)
			if !x.Prompt.Edited {
				t.Fatal("nothing to refuse")
			}
			x.Rejected()
			if got := bytes.Contains(x.Prompt.Body, []byte(ExpandTool)); got != c.declares {
				t.Errorf("the tool in the second request: %t, want %t", got, c.declares)
			}
			if !c.declares && string(x.Prompt.Body) != string(x.req.View.Raw) {
				t.Error("the second request is not the original")
			}
			if got := x.Accepted(0); got != c.want {
				t.Errorf("got %v refused, want %v", got, c.want)
			}
			x.Commit(&wire.Turn{Done: true}, time.Unix(1e9+int64(c.turns), 0))
			p.store.Release(s)
			for _, when := range []string{"next", "after a restart"} {
				y, s := begin(c.turns+1, 0)
				if tool := bytes.Contains(y.Prompt.Body, []byte(ExpandTool)); tool != c.declares || y.Prompt.Markers > 0 && c.want.Has(markers) {
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
