// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// called adds a call of a tool by a program with its result, and returns the message with the
// result.
func (s *script) called(n int, name, input, result string) string {
	s.answer = wire.Turn{Calls: []wire.Call{{ID: fmt.Sprint("p", n), Name: name, Arguments: input}}, Done: true}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"p%d","name":%q,"input":%s,`+
		`"caller":{"type":"code_execution_20250825","tool_id":"srv"}}]}`, n, name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"p%d","content":%s}]}`, n,
		content.Quote(result)))
	return s.messages[len(s.messages)-2] + "," + s.messages[len(s.messages)-1]
}

// A text read by a program is sent unmodified, whatever happens to the same text read by the model.
func TestProgramResultsStay(t *testing.T) {
	noise := strings.Repeat("status=ok\n", 400) + "done"
	for _, policy := range []Policy{CostAware, Eager} {
		s := newScript(t, Options{
			Policy: policy, Prune: Prune{Mode: stage.On}, CompactToolResults: CompactToolResults{Mode: stage.On},
			StripNarration: StripNarration{Mode: stage.On},
		}, keeping)
		s.p.Compress = &Compress{
			MinBytes: 100, Kinds: []Prose{ProseResults, ProseFiles, ProseOutput, ProseAnswers},
			Find: func(*sessioncache.Session, wire.Hash) (Shortened, bool) {
				return Shortened{Text: "short"}, true
			},
		}
		s.prompt("Report.")
		s.send(wire.Turn{Text: "I do.", Done: true})
		var stays []string
		for n := range 12 {
			stays = append(stays,
				s.called(3*n, "Read", `{"file_path":"/src/a.go"}`, readFile(60)),
				s.called(3*n+1, "Bash", `{"command":"check"}`, noise),
				s.called(3*n+2, "Edit", `{"file_path":"/src/b.go","old_string":`+string(content.Quote(readFile(60)))+
					`,"new_string":"x"}`, "ok"))
			s.send(s.answer)
		}
		s.result(0, "Read", readInput, read(60))
		x := s.send(s.answer)
		for _, want := range append(stays, read(60)[10:200]) {
			if !strings.Contains(string(x.Prompt.Body.Bytes()), want) {
				t.Fatalf("%s: got %s\nwant as the client sent it: %.200s", policy, x.Prompt.Body.Bytes(), want)
			}
		}
		if body := string(x.Prompt.Body.Bytes()); strings.Contains(body, "[llm_cache: same content") ||
			strings.Contains(body, "lines as in") {
			t.Errorf("%s: a result of the model's points to one that it has never seen: %s", policy, body)
		}
		for n := 1; n < 14; n++ {
			s.result(n, "Bash", fmt.Sprintf(`{"command":"check %d"}`, n), string(content.Quote(noise)))
			s.now = s.now.Add(3e11) // five minutes later, the cache is cold
			x = s.send(s.answer)
		}
		for _, want := range stays {
			if !strings.Contains(string(x.Prompt.Body.Bytes()), want) {
				t.Fatalf("%s: got %s\nwant as the client sent it: %.200s", policy, x.Prompt.Body.Bytes(), want)
			}
		}
		if len(x.Prompt.Fired) == 0 {
			t.Errorf("%s: nothing was edited, so nothing was tested", policy)
		}
	}
}

// A client's order to clear results does not apply to results of programs: it would save nothing.
func TestProgramResultsAreNotCleared(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	s.marker, s.head, s.p.Manages = "", ordering(clears), noFormat
	s.prompt("Report.")
	s.send(wire.Turn{Text: "I do.", Done: true})
	stays := s.called(0, "Read", `{"file_path":"/src/a.go"}`, readFile(60))
	x := s.run(0, 20, false)[19]
	if x.Prompt.Applied == nil || x.Prompt.Applied.ToolUses == 0 || !strings.Contains(string(x.Prompt.Body.Bytes()), stays) {
		t.Errorf("got %+v in %.2000s\nwant others cleared, and as the client sent it %.200s", x.Prompt.Applied, x.Prompt.Body.Bytes(),
			stays)
	}
}
