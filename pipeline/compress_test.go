// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// wordy makes a pipeline compress texts, with the results in the map.
func (s *script) wordy(known map[wire.Hash]Shortened, kinds ...Prose) {
	s.p.Compress = &Compress{MinBytes: 200, Kinds: kinds, Find: func(_ *sessioncache.Session, block wire.Hash) (Shortened, bool) {
		r, ok := known[block]
		return r, ok
	}}
}

// unread sends a request and returns the texts without a known result.
func (s *script) unread() (x *Exchange, texts map[wire.Hash]string) {
	s.t.Helper()
	x = s.send(wire.Turn{Text: "unrelated", Done: true, Usage: wire.Usage{Read: 1000, Uncached: 10, Reported: true}})
	texts = map[wire.Hash]string{}
	x.Unread(func(block wire.Hash, text string) bool {
		texts[block] = text
		return true
	})
	return x, texts
}

// calling adds a response with a text and a call, and its result, which may be an error.
func (s *script) calling(n int, name, input, said, result string, failed bool) {
	more := ""
	if failed {
		more = `,"is_error":true`
	}
	s.add(fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%s},{"type":"tool_use","id":"t%d","name":%q,"input":%s}]}`, content.Quote(said), n, name, input))
	s.add(fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%s%s}]}`, n, content.Quote(result), more))
}

// TestCompress lists the blocks that are compressed, and the moments.
func TestCompress(t *testing.T) {
	text := func(what string) string { return strings.Repeat("many words about "+what+" and the rest\n", 20) }
	kinds := map[string][]Prose{
		"results": {ProseResults}, "files": {ProseFiles}, "output": {ProseOutput}, "answers": {ProseAnswers},
		"all": {ProseResults, ProseFiles, ProseOutput, ProseAnswers},
	}
	for name, c := range map[string]struct {
		kinds   string
		options Options
		warm    bool // the upstream's cache is alive
		unknown bool // no result is known
		stays   bool // the known result is to keep the texts
		want    string
	}{
		"results":       {kinds: "results", want: "fetch"},
		"files":         {kinds: "files", want: "read"},
		"output":        {kinds: "output", want: "grep make"},
		"answers":       {kinds: "answers", options: Options{Expand: Expand{Mode: stage.On}}, want: "said"},
		"all":           {kinds: "all", options: Options{Expand: Expand{Mode: stage.On}}, want: "fetch grep make read said"},
		"no expanding":  {kinds: "answers", options: Options{Expand: Expand{Mode: stage.Off}}},
		"warm":          {kinds: "all", warm: true},
		"warm, eager":   {kinds: "all", warm: true, options: Options{Policy: Eager}},
		"nothing known": {kinds: "all", unknown: true},
		"texts stay":    {kinds: "all", stays: true},
		"zones":         {kinds: "all", options: Options{Zones: Zones{Frozen: new(9)}}},
		"observed":      {kinds: "results", options: Options{Policy: Observe}},
	} {
		o := c.options
		o.Prune.Mode, o.CompactToolResults.Mode, o.StripNarration.Mode, o.Admission.Mode = stage.Off, stage.Off, stage.Off, stage.Off
		o.Breakpoints.Mode, o.Planner.FoldInputs = stage.Off, new(false)
		s := newScript(t, o, keeping)
		known := map[wire.Hash]Shortened{}
		s.wordy(known, kinds[c.kinds]...)
		s.prompt(text("prompt"))
		_, offered := s.unread()
		if len(offered) != 0 {
			t.Errorf("%s: what the person wrote is offered", name)
		}
		for i, x := range []struct {
			tool, input, what string
			failed            bool
		}{
			{"WebFetch", `{"url":"u"}`, "fetch", false},
			{"Read", `{"file_path":"/a"}`, "read", false},
			{"Bash", `{"command":"make"}`, "make", false},
			{"Grep", `{"pattern":"p"}`, "grep", false},
			{"WebFetch", `{"url":"v"}`, "error", true},
			{"Edit", `{"file_path":"/a","old_string":"a","new_string":"b"}`, "edit", false},
			{"WebFetch", `{"url":"w"}`, "short", false},
		} {
			said, result := "I see.", text(x.what)
			if i == 0 {
				said = text("said")
			}
			if x.what == "short" {
				result = "few words"
			}
			s.calling(i, x.tool, x.input, said, result, x.failed)
		}
		for i := range 3 { // with the next one, the last four turns
			s.calling(100+i, "WebFetch", `{"url":"last"}`, "I see.", text("last"), false)
		}
		_, offered = s.unread()
		for block, text := range offered {
			if !c.unknown {
				known[block] = Shortened{Text: "short " + strings.Fields(text)[3], Took: time.Second}
			}
			if c.stays {
				known[block] = Shortened{}
			}
		}
		if !c.warm {
			s.now = s.now.Add(10 * time.Minute)
		}
		s.calling(999, "Read", `{"file_path":"/z"}`, "I see.", "few", false)
		x, again := s.unread()
		body := string(x.Prompt.Body)
		got := ""
		for _, what := range []string{"edit", "error", "fetch", "grep", "last", "make", "prompt", "read", "said"} {
			if strings.Contains(body, `\nshort `+what+`"`) {
				got += " " + what
			}
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: words were left out of %q, want %q", name, got, c.want)
		}
		n := len(strings.Fields(c.want))
		if count(x, stage.Compress) != n && name != "observed" || x.Prompt.Compressed.Texts != count(x, stage.Compress) || n > 0 && (x.Prompt.Compressed.Tokens <= 0 || x.Prompt.Compressed.Took != time.Duration(n)*time.Second) {
			t.Errorf("%s: %+v, %v", name, x.Prompt.Compressed, x.Prompt.Fired)
		}
		if c.unknown != (len(again) > 0) {
			t.Errorf("%s: %d texts are offered again", name, len(again))
		}
		// Cached texts stay unchanged, even after their results are known.
		known[wire.Hash{}] = Shortened{}
		for block := range known {
			known[block] = Shortened{Text: "other"}
		}
		s.calling(1000, "Read", `{"file_path":"/y"}`, "I see.", "few", false)
		y, _ := s.unread()
		before, _, _ := strings.Cut(body, s.marker+"}]}]")
		if name != "observed" && !strings.HasPrefix(string(y.Prompt.Body), before) {
			t.Errorf("%s: the prefix has changed", name)
		}
	}
}
