// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// maxAsked bounds the restores of the expanding model before its answer.
const maxAsked = 3

var stubName = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8})`)

// say returns the simulated model's answer to a request as it arrived.
func (a *arm) say(v *wire.View) *simulator.Answer {
	if !a.expanding || a.asked == maxAsked || len(a.request.edits) == 0 || !declares(v) {
		return a.request.answer
	}
	names := a.missing(v)
	if len(names) == 0 {
		return a.request.answer
	}
	// Before its answer, the model restores the blocks with the lines that its edits quote.
	a.asked++
	a.result.Expanded++
	input, _ := json.Marshal(map[string][]string{"ids": names}) // strings always encode
	id := fmt.Sprintf("toolu_expand%06d", a.result.Expanded)
	return &simulator.Answer{Blocks: []simulator.Block{{
		Type: simulator.ToolUse, ID: id, Name: pipeline.ExpandTool,
		Input: input,
	}}}
}

func declares(v *wire.View) bool {
	for i := range v.Blocks[:v.Tools] {
		if v.Text(v.Blocks[i].Name) == pipeline.ExpandTool {
			return true
		}
	}
	return false
}

// missing returns the names of the stubs for lines that the answer quotes.
func (a *arm) missing(v *wire.View) (names []string) {
	c := a.request
	if c.history == nil {
		c.history = harm.Texts(c.body)
	}
	shown := harm.Texts(a.sent)
	seen := map[string]bool{}
	for _, lines := range c.edits {
		if !harm.Done(lines, c.history, shown) {
			continue
		}
		for _, line := range lines {
			// The upstream was shown the line, or the client never sent it.
			if l := []byte(line); bytes.Contains(shown, l) || !bytes.Contains(c.history, l) {
				continue
			}
			if name := a.stub(v, line); name != "" && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// stub returns the name of the latest stub in place of the client's block with a line, or "".
func (a *arm) stub(v *wire.View, line string) string {
	client := a.request.view
	blocks := client.MessageBlocks()
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		if b.Body.Empty() || b.ID.Empty() || !bytes.Contains(harm.AppendTexts(nil, client.Bytes(b.Body)), []byte(line)) &&
			!bytes.Contains(harm.Texts([]byte(`{"arguments":`+client.Text(b.Body)+`}`)), []byte(line)) {
			continue
		}
		id := client.Text(b.ID)
		for _, s := range v.MessageBlocks() {
			if s.Kind == b.Kind && v.Text(s.ID) == id {
				if m := stubName.FindSubmatch(v.Bytes(s.Body)); m != nil {
					return string(m[1])
				}
			}
		}
	}
	return ""
}
