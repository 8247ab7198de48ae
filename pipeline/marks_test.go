// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

const repeats = "[llm_cache: 58 lines of passing tests left out]"

// TestMarks: the marks of a prompt are the texts added by stages: before the first fold, without
// the expand tool and under every policy. The client's own text is no mark.
func TestMarks(t *testing.T) {
	same := `"` + strings.Repeat(`=== RUN   TestA\n`, 60) + `done"`
	quiet := func(o Options) Options {
		o.Expand.Mode = stage.Off
		return o
	}
	for _, c := range []struct {
		name    string
		options Options
		make    func(s *script)
		stands  string // in the prompt
		misled  string // in no call: stands, unless given
	}{
		{"a note", quiet(admitting(CostAware)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) }, repeats, repeats},
		{"a note, eager", quiet(admitting(Eager)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) }, repeats, repeats},
		{"a note that the model has quoted", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.final("It says " + repeats)
			s.prompt("Go on.")
		}, repeats, repeats},
		{"a note that the client has in a file", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.result(1, "Read", readInput, string(content.Quote("about\n"+repeats+"\n")))
		}, repeats, ""},
		{"a note that the client has typed", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, same)
			s.prompt("What is " + repeats + "?")
		}, repeats, ""},
		{"a note of the client's in a result that is shortened", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"check"}`, string(content.Quote(repeats+"\n"+strings.Repeat("=== RUN   TestA\n", 80))))
		}, repeats, ""},
		{"a note with quotes", quiet(admitting(CostAware)), func(s *script) {
			s.result(0, "Bash", `{"command":"grep \"a\\.b\" c"}`, string(content.Quote(strings.Repeat("12345678901234567890\n", 2)+numbered(60))))
			s.result(1, "Bash", `{"command":"true"}`, string(content.Quote(strings.Repeat("12345678901234567890\n", 2)+numbered(60))))
		}, `same content as the result of Bash grep \"a\\.b\" c above`, `[llm_cache: same content as the result of Bash grep "a\.b" c above (t0), 62 lines]`},
		{"a compacted result", quiet(Options{Policy: Eager, Prune: Prune{Mode: stage.Off}}), func(s *script) { s.run(0, 12, false) }, "[Compacted: ", "[Compacted: "},
		{"a stub, eager", quiet(Options{Policy: Eager, CompactToolResults: CompactToolResults{Mode: stage.Off}}), func(s *script) { s.run(0, 12, false) }, "[[llm_cache:folded ", "[[llm_cache:folded "},
		{"what is cleared on the client's order", Options{}, func(s *script) {
			s.marker, s.head = "", ordering(clears)
			s.p.Manages = nobody
			s.run(0, 20, false)
		}, content.ClearedPlaceholder, content.ClearedPlaceholder},
		{"observed only", quiet(admitting(Observe)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, same) }, "", ""},
		{"nothing edited", quiet(admitting(CostAware)), func(s *script) { s.result(0, "Bash", `{"command":"check"}`, `"done"`) }, "", ""},
	} {
		s := newScript(t, c.options, unbound)
		s.prompt("Fix the bug.")
		s.send(wire.Turn{Text: "I check.", Done: true})
		c.make(s)
		x := s.send(s.answer)
		body := string(x.Prompt.Body)
		if !strings.Contains(body, c.stands) {
			t.Fatalf("%s: %q does not stand in %s", c.name, c.stands, body)
		}
		if c.stands == "" && x.Interceptor.Intercepts() {
			t.Errorf("%s: answers are intercepted", c.name)
		}
		mark := c.misled
		if mark == c.stands && mark != "" && !strings.HasSuffix(mark, "]") { // the whole mark
			mark = regexp.MustCompile(regexp.QuoteMeta(mark) + `[^\]]*\]+`).FindString(hidden.Plain(body))
		}
		if mark == "" {
			mark = repeats
		}
		arguments := fmt.Sprintf(`{"command":%s}`, content.Quote("cat > a <<'X'\n"+mark+"\nX"))
		if got, want := x.Interceptor.Intercepts() && x.Interceptor.Misled(arguments), c.misled != ""; got != want {
			t.Errorf("%s: misled by %q: got %t, want %t (intercepts %t)", c.name, mark, got, want, x.Interceptor.Intercepts())
		}
	}
}

// numbered returns lines that no rule shortens.
func numbered(lines int) string {
	var s strings.Builder
	for i := range lines {
		fmt.Fprintf(&s, "value %d of the table is %d\n", i, i*i)
	}
	return s.String()
}

// TestRefusedWithoutTheTool: a model without the tool receives the text of a stub that it has
// copied.
func TestRefusedWithoutTheTool(t *testing.T) {
	s := newScript(t, Options{Policy: Eager, Expand: Expand{Mode: stage.Off}, CompactToolResults: CompactToolResults{Mode: stage.Off}}, unbound)
	s.prompt("Fix the bug.")
	s.run(0, 12, false)
	x := s.send(s.answer)
	mark := regexp.MustCompile(`\[\[llm_cache:folded [0-9a-f]{8}`).FindString(string(x.Prompt.Body))
	p := hidden.Part{Name: "Write", Arguments: `{"content":"` + mark + `: Read"}`}
	x.Interceptor.Answer(&p, nil)
	if name := strings.TrimPrefix(mark, "[[llm_cache:folded "); !p.Failed || !strings.HasSuffix(p.Result, "\n"+x.req.original(name)) || strings.Contains(p.Result, ExpandTool) {
		t.Errorf("got %q", p.Result)
	}
}

// TestCopiedIsRemembered: after a response that ended because a call contained a mark, the next
// response buffers its calls. The response after that does not.
func TestCopiedIsRemembered(t *testing.T) {
	s := newScript(t, admitting(CostAware), unbound)
	s.prompt("Fix the bug.")
	s.result(0, "Bash", `{"command":"check"}`, `"`+strings.Repeat(`status=ok\n`, 60)+`done"`)
	begin := func() *Exchange {
		v, err := wire.Parse(s.format, []byte(s.body()), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s.p.Begin(v, s.s, s.now)
	}
	x := begin()
	if x.Interceptor.Whole() {
		t.Error("calls are kept back at first")
	}
	sent := string(x.Prompt.Body)
	x.Interceptor.Copied()
	x.Abandon()
	for range 2 { // the second is cut off, too
		x = begin()
		if !x.Interceptor.Whole() || string(x.Prompt.Body) != sent {
			t.Errorf("kept back %t, sent\n%s\nwant\n%s", x.Interceptor.Whole(), x.Prompt.Body, sent)
		}
		x.Abandon()
	}
	x = begin()
	x.Commit(&s.answer, s.now)
	s.result(1, "Bash", `{"command":"true"}`, `"ok"`)
	if x = begin(); x.Interceptor.Whole() {
		t.Error("calls are kept back behind a good answer")
	}
	x.Abandon()
}
