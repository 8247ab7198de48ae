// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// behind is a conversation in which file0.go to file39.go were read, and folded after expiry.
func behind(t *testing.T, o Options) *script {
	s := newScript(t, o, keeping)
	s.prompt("Fix the bug.")
	s.run(0, 40, false)
	s.final("Done.")
	s.prompt("Now the rest.")
	s.now = s.now.Add(2 * keeping.TTL)
	if x := s.send(wire.Turn{Text: "unrelated", Done: true}); x.Decision.Folded < 20 && o.Policy != Observe {
		t.Fatalf("hardly anything is folded: %s", x.Decision.String())
	}
	return s
}

// miss adds a call and its result, and returns the new signs of a miss.
func (s *script) miss(name, input, result string, failed bool) missSigns {
	n := len(s.messages)
	flag := ""
	if failed {
		flag = `,"is_error":true`
	}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"r%d","name":%q,"input":%s}]}`, n,
		name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"r%d"%s,"content":%s}]}`, n, flag,
		content.Quote(result)))
	return s.send(wire.Turn{Text: "unrelated", Done: true}).Lesson.Misses
}

func patch(file string) string {
	return "*** Begin Patch\n*** Update File: " + file + "\n@@\n-f5 line 7 of the file with some text\n+g\n*** End Patch"
}

// Each agent words an edit that did not find its text differently.
func TestMissesOfFailedEdits(t *testing.T) {
	const file = "/src/file5.go"
	edit := func(format string) string { return fmt.Sprintf(format, file) }
	for _, c := range []struct {
		agent, tool, input, result string
		failed                     bool
		want                       int32
	}{
		{
			"Claude Code", "Edit", edit(`{"file_path":%q,"old_string":"a","new_string":"b"}`),
			"<tool_use_error>String to replace not found in file.\nString: a</tool_use_error>", true, 1,
		},
		{
			"Codex", "apply_patch", string(content.Quote(patch(file))),
			"apply_patch verification failed: Failed to find expected lines in /src/file5.go:\nf5", false, 1,
		},
		{
			"Codex, by a program", "exec", `{"input":` +
				string(content.Quote("const r = await tools.apply_patch("+string(content.Quote(patch(file)))+");")) + `}`,
			"Script failed\nWall time 0.0 seconds\nOutput:\n\nScript error:\napply_patch verification failed: Failed to find " +
				"expected lines in /src/file5.go", false, 1,
		},
		{
			"opencode", "edit", edit(`{"filePath":%q,"oldString":"a","newString":"b"}`),
			"Error: Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line " +
				"endings.", true, 1,
		},
		{
			"opencode before", "edit", edit(`{"filePath":%q,"oldString":"a","newString":"b"}`),
			"Error: oldString not found in content", true, 1,
		},
		{
			"pi", "edit", edit(`{"path":%q,"oldText":"a","newText":"b"}`),
			"Could not find the exact text in /src/file5.go. The old text must match exactly including all whitespace and " +
				"newlines.", true, 1,
		},
		{
			"pi, several", "edit", edit(`{"path":%q,"edits":[{"oldText":"a","newText":"b"}]}`),
			"Could not find edits[0] in /src/file5.go. The oldText must match exactly.", true, 1,
		},
		{
			"Gemini CLI", "replace", edit(`{"file_path":%q,"old_string":"a","new_string":"b"}`),
			"Failed to edit, 0 occurrences found for old_string in /src/file5.go. No edits made.", true, 1,
		},
		{
			"SWE-agent", "str_replace_based_edit_tool", edit(`{"command":"str_replace","path":%q,"old_str":"a","new_str":"b"}`),
			"No replacement was performed, old_str `a` did not appear verbatim in /src/file5.go.", false, 1,
		},

		{
			"found twice", "Edit", edit(`{"file_path":%q,"old_string":"a","new_string":"b"}`),
			"Found 2 matches of the string to replace, but replace_all is false.", true, 0,
		},
		{
			"made", "Edit", edit(`{"file_path":%q,"old_string":"a","new_string":"b"}`),
			"The file /src/file5.go has been updated.", false, 0,
		},
		{
			"of a file that was never folded", "Edit", `{"file_path":"/src/other.go","old_string":"a","new_string":"b"}`,
			"<tool_use_error>String to replace not found in file.</tool_use_error>", true, 0,
		},
	} {
		s := behind(t, Options{})
		if got := s.miss(c.tool, c.input, c.result, c.failed); got != (missSigns{Failed: c.want}) {
			t.Errorf("%s: %+v, want %d", c.agent, got, c.want)
		}
	}
}

// A reread of a folded text counts once: its text is in the prompt from then on.
func TestMissesOfReads(t *testing.T) {
	const input = `{"file_path":"/src/file5.go"}`
	s := behind(t, Options{})
	if got := s.miss("Read", `{"file_path":"/src/file99.go"}`, long("f99"), false); got.Sum() != 0 {
		t.Errorf("another file: %+v", got)
	}
	if got := s.miss("Read", `{"file_path":"/src/file6.go","offset":900,"limit":60}`, long("further down"),
		false); got.Sum() != 0 {
		t.Errorf("lines that were not folded: %+v", got)
	}
	if got := s.miss("Read", input, long("f5"), false); got != (missSigns{Reread: 1}) {
		t.Errorf("%+v", got)
	}
	if got := s.miss("Read", input, long("f5"), false); got.Sum() != 0 {
		t.Errorf("once more, as it is shown: %+v", got)
	}
	if got := s.miss("Bash", `{"command":"cat src/file7.go"}`, long("f7"), false); got != (missSigns{Reread: 1}) {
		t.Errorf("by a shell: %+v", got)
	}
	if l := s.s.Report(s.now).Conversations[0]; l.FoldMisses != 2 {
		t.Errorf("%d are remembered", l.FoldMisses)
	}
}

// TestObserveCountsRereads: a text that would have been folded is read again without any fold, and counts for
// comparison.
func TestObserveCountsRereads(t *testing.T) {
	s := behind(t, Options{Policy: Observe})
	if got := s.miss("Read", `{"file_path":"/src/file5.go"}`, long("f5"), false); got != (missSigns{Reread: 1}) {
		t.Errorf("got %+v, want one reread", got)
	}
	if l := s.s.Report(s.now).Conversations[0]; l.FoldMisses != 0 {
		t.Errorf("got %d misses in the session's report, want none of folds that were not sent", l.FoldMisses)
	}
	// Once edits are made, the signs count no more.
	s.p = New(Options{}, s.p.rules)
	s.send(wire.Turn{Text: "unrelated", Done: true})
	if l := s.s.Report(s.now).Conversations[0]; l.FoldMisses != 0 {
		t.Errorf("got %d misses after the change of policy, want none", l.FoldMisses)
	}
}

// Misses make folds of the same file, and of all others, less likely. Above a limit there are no
// more folds.
func TestMissesRaiseCare(t *testing.T) {
	s := behind(t, Options{})
	need := func(file int) float64 {
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := s.p.Begin(v, s.s, s.now)
		defer x.Abandon()
		for i := range x.req.States {
			if x.req.States[i].File != 0 && strings.Contains(string(v.Bytes(x.req.Blocks[i].Body)),
				fmt.Sprintf("f%d line", file)) {
				return x.req.misses.Need(&x.req.History, i, 0.01)
			}
		}
		t.Fatalf("no file %d", file)
		return 0
	}
	if got := need(5); got != 0.01 {
		t.Errorf("%v before anything was missed", got)
	}
	s.miss("Read", `{"file_path":"/src/file5.go"}`, long("f5"), false)
	if got, other := need(5), need(6); got != 0.02 || other != 0.01 {
		t.Errorf("%v of the file that was missed, %v of another", got, other)
	}
	missed := 1
	for ; missed < 40; missed++ {
		x := s.p.Begin(parsed(t, s), s.s, s.now)
		x.Abandon()
		if x.Decision.Reason == "what was folded was missed" {
			break
		}
		if over := x.req.misses.TooMuch(); over {
			t.Fatalf("%d were missed: %s", missed, x.Decision.String())
		}
		s.miss("Read", fmt.Sprintf(`{"file_path":"/src/file%d.go"}`, missed+5), long(fmt.Sprint("f", missed+5)), false)
	}
	if missed < 5 || missed > 12 {
		t.Errorf("folds end after %d were missed", missed)
	}
	s.now = s.now.Add(2 * keeping.TTL)
	if x := s.send(wire.Turn{Text: "unrelated", Done: true}); x.Decision.Folded != 0 ||
		x.Decision.Epoch != planner.NoEpoch {
		t.Errorf("it folds on: %s", x.Decision.String())
	}
	if x := s.p.Begin(parsed(t, s), s.s, s.now); !strings.Contains(string(x.Prompt.Body.Bytes()), content.StubFrame) {
		t.Error("what was folded did not stay so")
	}
}

func parsed(t *testing.T, s *script) *wire.View {
	t.Helper()
	v, err := wire.Parse(s.format, []byte(s.body()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
