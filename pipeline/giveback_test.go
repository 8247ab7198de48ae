// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// call adds a call and its result, and sends what follows.
func (s *script) call(name, input, result string) *Transaction {
	n := len(s.messages)
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"g%d","name":%q,"input":%s}]}`, n,
		name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"g%d","content":%s}]}`, n,
		content.Quote(result)))
	return s.send(wire.Turn{Text: "unrelated", Done: true, Usage: warmUsage})
}

// returned counts the restored texts in a body.
func returned(x *Transaction) int { return bytes.Count(x.Prompt.Body.Bytes(), []byte(ReturnedFrame)) }

// Text that the agent is about to need is restored in the new part of the prompt, and stays there.
func TestFoldsComeBack(t *testing.T) {
	const line = "f5 line 7 of the file with some text"
	edit := fmt.Sprintf(`{"file_path":"/src/other.go","old_string":%q,"new_string":"b"}`, line)
	for name, c := range map[string]struct {
		tool, input, result string
		want                int
	}{
		"a result names the file": {
			"Bash", `{"command":"go test ./src/"}`,
			"--- FAIL: TestIt\n    /src/file5.go:12: got 1, want 2", 1,
		},
		"a result names it from elsewhere": {"Grep", `{"pattern":"x"}`, "src/file5.go:12: x", 1},
		"an edit quotes it": {
			"Edit", edit,
			"<tool_use_error>String to replace not found in file.</tool_use_error>", 1,
		},
		"an edit quotes what is not folded": {
			"Edit",
			`{"file_path":"/src/other.go","old_string":"a line that stood nowhere before","new_string":"b"}`, "done", 0,
		},
		"it is read again":            {"Read", `{"file_path":"/src/file5.go"}`, "/src/file5.go\n" + long("f5"), 0},
		"a result names another file": {"Bash", `{"command":"ls"}`, "/src/file99.go", 0},
		"the call names it":           {"Bash", `{"command":"rm /src/file5.go"}`, "done", 0},
	} {
		s := behind(t, Options{})
		before := s.p.Begin(parsed(t, s), s.s, s.now)
		before.Abandon()
		x := s.call(c.tool, c.input, c.result)
		if got := returned(x); got != c.want {
			t.Errorf("%s: %d texts are given back, want %d", name, got, c.want)
			continue
		}
		if c.want == 0 {
			continue
		}
		at := bytes.Index(x.Prompt.Body.Bytes(), []byte(ReturnedFrame))
		if !strings.Contains(string(x.Prompt.Body.Bytes()[at:]), line) {
			t.Errorf("%s: it is another text: %.300s", name, x.Prompt.Body.Bytes()[at:])
		}
		if end := bytes.LastIndex(x.Prompt.Body.Bytes(), []byte(`"role":"assistant"`)); at < end {
			t.Errorf("%s: it stands at %d, in front of the last answer at %d", name, at, end)
		}
		if i := bytes.LastIndex(before.Prompt.Body.Bytes(), []byte(`"role":"user"`)); !bytes.Equal(unmarked(before.Prompt.Body.Bytes()[:i]),
			unmarked(x.Prompt.Body.Bytes())[:len(unmarked(before.Prompt.Body.Bytes()[:i]))]) {
			t.Errorf("%s: what stands in front has changed", name)
		}
		fired := 0
		for _, f := range x.Prompt.Fired {
			if f.Stage == stage.Restore {
				fired += f.Count
			}
		}
		again := s.call("Bash", `{"command":"go vet"}`, "/src/file5.go:12: the same once more")
		if fired != 1 || returned(again) != 1 || !bytes.HasPrefix(unmarked(again.Prompt.Body.Bytes()), unmarked(x.Prompt.Body.Bytes())[:at]) {
			t.Errorf("%s: %d fired, %d texts afterwards", name, fired, returned(again))
		}
	}
	off := false
	s := behind(t, Options{Planner: Planner{Restore: &off}})
	if n := returned(s.call("Grep", `{"pattern":"x"}`, "src/file5.go:12: x")); n != 0 {
		t.Errorf("%d are given back though it is off", n)
	}
}

// A restored text is paid once more, so it counts among the stakes of the conversation's folds.
func TestRestoresAreStaked(t *testing.T) {
	staked := func(result string) (float64, *Transaction) {
		s := behind(t, Options{})
		s.turn(90, "/src/other.go", result)
		x := s.send(wire.Turn{Done: true, Usage: wire.Usage{Read: 9000, Write5m: 900, Reported: true}})
		saved := float64(x.Prompt.OriginalTokens-x.Prompt.SentTokens) * keeping.Read
		return conversationOf(t, s).Staked + saved, x
	}
	before, x := staked("nothing of note")
	if n := returned(x); n != 0 {
		t.Fatalf("%d texts are given back, want none", n)
	}
	after, x := staked("src/file5.go:12: x")
	if n := returned(x); n != 1 {
		t.Fatalf("%d texts are given back, want 1", n)
	}
	tokens := float64(len(long("f5"))) / 4 // about four characters each
	if got, want := after-before, tokens*(keeping.Write-keeping.Read); got < want/2 || got > 2*want {
		t.Errorf("the restored text adds %g to the stakes, want about %g", got, want)
	}
}

// A conversation has no text restored where too much is at stake already.
func TestRestoresAreAffordable(t *testing.T) {
	for _, c := range []struct {
		staked float64
		want   int
	}{{0, 1}, {1e6, 0}} {
		s := behind(t, Options{})
		l := conversationOf(t, s)
		l.Spent, l.Staked = 1e6, c.staked
		if got := returned(s.call("Grep", `{"pattern":"x"}`, "src/file5.go:12: x")); got != c.want {
			t.Errorf("with %v at stake: got %d texts restored, want %d", c.staked, got, c.want)
		}
	}
}

// unmarked returns a body without markers.
func unmarked(body []byte) []byte {
	return bytes.ReplaceAll(body, []byte(`,"cache_control":{"type":"ephemeral"}`), nil)
}
