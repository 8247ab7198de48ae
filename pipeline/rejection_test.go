// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/settings"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func TestRefusedEditsFreezeTheLineage(t *testing.T) {
	s := newScript(t, settings.Options{Policy: settings.Eager}, keeping)
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
	x.Commit(&wire.Turn{Done: true}, s.now)
	s.turn(70, "/src/z.go", long("z"))
	if y := s.send(wire.Turn{Done: true}); y.Prompt.Edited || y.Prompt.Markers != 0 {
		t.Error("edited again")
	}
}

// What is refused without the edits, too, was not refused for them: the
// conversation is edited as before.
func TestAcquittedEdits(t *testing.T) {
	s := newScript(t, settings.Options{Policy: settings.Eager}, keeping)
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

// A refused edit in the very first request is remembered even if the original
// fails too.
func TestRefusedFirstRequest(t *testing.T) {
	s := newScript(t, settings.Options{Policy: settings.Eager}, keeping)
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
	x.Abandon()
	if y := s.send(wire.Turn{Done: true}); y.Prompt.Edited {
		t.Error("edited again")
	}
}
