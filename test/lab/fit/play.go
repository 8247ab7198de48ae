// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// sample is one block at one moment: its appraisal, and whether it was needed.
type sample struct {
	pipeline.Appraisal
	// needed reports whether a later edit quoted a line of the block that no later block held.
	needed bool
	// weight is the number of moments that the sample represents.
	weight float64
	// bytes is the saving from folding the block.
	bytes int
}

// Of the requests within runs of calls one in loopStride is sampled, because little changes between
// them. A user's prompt has more weight, because most folds are made there.
const (
	loopStride   = 4
	promptWeight = 20
)

// least is the minimum size of folded blocks, for which their stubs are shorter.
const least = 400

// play plays a conversation and returns the samples of all blocks and moments.
func play(c *recording.Conversation) ([]sample, error) {
	m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var out []sample
	for _, path := range c.Parts {
		p := player{
			session: m.Acquire(context.Background(), sessioncache.Key{ID: path}),
			pipeline: pipeline.New(pipeline.Options{Policy: pipeline.Observe}, func(string, time.Time) pricing.Rules {
				return keeping
			}),
			holder: map[string]int{}, needed: map[int]int{}, now: time.Unix(0, 0),
		}
		samples, err := p.part(path)
		if err != nil {
			return nil, err
		}
		out = append(out, samples...)
	}
	return out, nil
}

// keeping are the rules of a cache that binds nothing to its context.
var keeping = pricing.Rules{
	Regime: pricing.Markers, Markers: 4, LookBack: 20, CollapseRuns: true, KeepsThinking: true,
	Write: 1.25, Write1h: 2, Read: 0.1, TTL: 5 * time.Minute, LongTTL: time.Hour, MinTokens: 1024,
}

// player is the state of one part of a conversation.
type player struct {
	session  *sessioncache.Session
	pipeline *pipeline.Pipeline
	now      time.Time
	body     []byte
	known    *wire.Known
	seen     int            // blocks with lines in holder
	holder   map[string]int // line → the last block that holds it
	needed   map[int]int    // block → the last call with an answer that needed it
	open     []pending
}

// pending is a sample with an unknown outcome.
type pending struct {
	block, call int
	sample
}

func (p *player) part(path string) ([]sample, error) {
	t, err := recording.OpenTrace(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	next, err := t.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for k := 0; next != nil; k++ {
		call := next
		if next, err = t.Next(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		var answer *recording.Message
		if next != nil && next.Messages[0].Role == "assistant" {
			answer = &next.Messages[0]
		}
		if err := p.call(k, path, call.Messages, answer); err != nil {
			return nil, fmt.Errorf("%s: call %d: %w", path, k, err)
		}
	}
	out := make([]sample, len(p.open))
	for i, o := range p.open {
		last, ok := p.needed[o.block]
		o.needed = ok && last >= o.call
		out[i] = o.sample
	}
	return out, nil
}

// call plays one request and its answer, which is nil for the last request.
func (p *player) call(k int, path string, messages []recording.Message, answer *recording.Message) error {
	for i := range messages {
		if len(p.body) > 0 {
			p.body = append(p.body, ',')
		}
		p.body = appendMessage(p.body, &messages[i])
	}
	body := append(append([]byte(`{"model":"m","tools":[{"name":"a"}],"messages":[`), p.body...), "]}"...)
	v, err := wire.Parse(wire.Anthropic, body, func(wire.Hash) *wire.Known { return p.known })
	if err != nil {
		return err
	}
	p.known = v.Known()
	x := p.pipeline.Begin(v, p.session, p.now)
	h := x.History()
	for ; p.seen < len(h.Blocks); p.seen++ {
		p.record(v, &h.Blocks[p.seen])
	}
	if prompt := !x.Loops(); prompt || (uint32(k)+hash(path))%loopStride == 0 {
		weight := float64(loopStride)
		if prompt {
			weight = promptWeight
		}
		scratch := pipeline.NewNeedScratch()
		for i, a := range scratch.Appraise(h, nil) {
			if s := &h.States[i]; s.Trait != "" && s.Turn < h.States[len(h.States)-1].Turn && h.Blocks[i].Body.Len() >= least {
				p.open = append(p.open, pending{i, k, sample{Appraisal: a, weight: weight, bytes: h.Blocks[i].Body.Len()}})
			}
		}
	}
	if answer == nil {
		x.Abandon()
		return nil
	}
	for _, lines := range harm.Quotes(answer) {
		for _, line := range lines {
			if q, ok := content.Quotable(line); ok {
				if b, found := p.holder[q]; found {
					p.needed[b] = k
				}
			}
		}
	}
	x.Commit(turn(answer), p.now)
	x.Close()
	p.now = p.now.Add(10 * time.Second)
	return nil
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum32()
}

// appendMessage appends a message as the recorded client would send it.
func appendMessage(dst []byte, m *recording.Message) []byte {
	dst = append(append(append(dst, `{"role":"`...), m.Role...), `","content":[`...)
	for i := range m.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.Content[i].Raw...)
	}
	return append(dst, "]}"...)
}

// record records the lines of a block: those of its text, or those that its input would have written
// to a file.
func (p *player) record(v *wire.View, b *wire.Block) {
	note := func(text string) {
		for line := range strings.Lines(text) {
			if q, ok := content.Quotable(line); ok {
				p.holder[q] = p.seen
			}
		}
	}
	switch b.Kind {
	case wire.KindToolUse:
		written(v.Bytes(b.Body), note)
	case wire.KindText, wire.KindToolResult:
		note(content.Of(v, b))
	}
}

// written calls f for the texts in a call's input, except for those that it replaces.
func written(input []byte, f func(text string)) {
	d := json.NewDecoder(bytes.NewReader(input))
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			if !strings.Contains(v, "*** Begin Patch") {
				f(v)
				return
			}
			for line := range strings.Lines(strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`).Replace(v)) {
				if !strings.HasPrefix(line, "-") && len(line) > 1 {
					f(line[1:])
				}
			}
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			for k, e := range v {
				if !strings.HasPrefix(k, "old") {
					visit(e)
				}
			}
		}
	}
	var v any
	if d.Decode(&v) == nil {
		visit(v)
	}
}

// turn converts an answer to the handler's form.
func turn(answer *recording.Message) *wire.Turn {
	t := &wire.Turn{Done: true}
	for i := range answer.Content {
		switch b := &answer.Content[i]; b.Type {
		case "text":
			t.Text += b.Text
		case "thinking":
			t.Thinking += b.Thinking
		case "tool_use":
			t.Calls = append(t.Calls, wire.Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		}
	}
	return t
}
