// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// summary is Codex's request for a summary.
const summary = `{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."}]}`

const (
	shell      = `{"type":"function","name":"shell"}`
	otherTools = `[` + shell + `,{"type":"function","name":"view_image"}]`
)

// responses is a request of the Responses API after so many turns.
func responses(t *testing.T, turns int, more, tools, instructions, model string) *wire.View {
	t.Helper()
	items := []string{`{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the build."}]}`}
	for i := range turns {
		items = append(items, fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Step %d."}]}`, i),
			fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on, %d."}]}`, i))
	}
	if more != "" {
		items = append(items, more)
	}
	v, err := wire.Parse(wire.OpenAIResponses, []byte(`{"model":"`+model+`","instructions":"`+instructions+`","input":[`+strings.Join(items, ",")+
		`],"tools":`+tools+`,"tool_choice":"auto","store":false}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Only a request for a summary without tools gets the tools of its conversation.
func TestSummaryKeepsTools(t *testing.T) {
	const own = `[` + shell + `]`
	for name, c := range map[string]struct {
		tools, more, instructions, model string
		after                            time.Duration
		policy                           Policy
		upstream                         wire.Format
		want                             string
	}{
		"a summary":                     {tools: `[]`, want: own},
		"one that has its tools":        {tools: otherTools, want: otherTools},
		"a title":                       {tools: `[]`, more: strings.Replace(summary, "CONTEXT CHECKPOINT COMPACTION", "short title", 1), want: `[]`},
		"other instructions":            {tools: `[]`, instructions: "Summarise.", want: `[]`},
		"another model":                 {tools: `[]`, model: "gpt-5-mini", want: `[]`},
		"when the cache is cold":        {tools: `[]`, after: time.Hour, want: `[]`},
		"where edits are only computed": {tools: `[]`, policy: Observe, want: `[]`},
		"where a choice of tools changes how messages are read": {tools: `[]`, upstream: wire.Anthropic, want: `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if c.policy == "" {
				c.policy = CostAware
			}
			p := New(Options{Policy: c.policy}, func(string, time.Time) pricing.Rules {
				return pricing.Rules{Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: 5 * time.Minute, MinTokens: 1024}
			})
			p.Target = func(f wire.Format) wire.Format {
				if c.upstream != "" {
					return c.upstream
				}
				return f
			}
			s, at := m.Acquire(t.Context(), sessioncache.Key{ID: "a"}), time.Unix(0, 0)
			for turns := range 3 {
				x := p.Begin(responses(t, turns, "", own, "Be brief.", "gpt-5"), s, at)
				x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Uncached: 100, Read: 4000, Reported: true}}, at)
				x.Close()
			}
			if c.more == "" {
				c.more = summary
			}
			if c.instructions == "" {
				c.instructions = "Be brief."
			}
			if c.model == "" {
				c.model = "gpt-5"
			}
			x := p.Begin(responses(t, 3, c.more, c.tools, c.instructions, c.model), s, at.Add(c.after))
			defer x.Abandon()
			got, choice := gjson.GetBytes(x.Prompt.Body, "tools").Raw, gjson.GetBytes(x.Prompt.Body, "tool_choice").Str
			if given := c.want == own; got != c.want || (choice == "none") != given || x.Prompt.Edited != given {
				t.Errorf("tools %s, choice %s, edited %t; want tools %s", got, choice, x.Prompt.Edited, c.want)
			}
			if c.want == own && x.Prompt.SentTokens <= x.Prompt.OriginalTokens {
				t.Errorf("%d tokens are sent of %d, tools included", x.Prompt.SentTokens, x.Prompt.OriginalTokens)
			}
			if x.Rejected(); string(x.Prompt.Body) != string(x.req.View.Raw) {
				t.Errorf("after a rejection: %s", x.Prompt.Body)
			}
		})
	}
}
