// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/agent"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/compressor"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// unrecorded is the time between two requests of a trace without times.
const unrecorded = 10 * time.Second

// drive sends one conversation to one provider: once as the client's own bytes, and once through
// each arm.
type drive struct {
	conversation *recording.Conversation
	profile      pricing.Profile
	start        time.Time
	summaries    bool // Codex requests summaries
	progress     func()
	results      []Result // one for each policy, in their order

	arms []*arm

	plain    *pricing.Simulator
	baseline baseline
	asked    func(*Asked)
	change   func(*recording.Conversation, *pricing.Profile, int, []byte) ([]byte, error) // see [Options]
	number   int                                                                          // of the next request
	known    *wire.Known
	before   []wire.Hash // the blocks of the previous request
	now      time.Time
}

type baseline struct {
	usage     wire.Usage
	cost      float64
	maxPrompt int64
	rejected  int
}

func configure(options []byte) (*handler.Handler, error) {
	h := new(handler.Handler)
	if len(options) == 0 {
		options = []byte("{}")
	}
	if err := json.Unmarshal(options, h); err != nil {
		return nil, fmt.Errorf("replay: options of the handler: %w", err)
	}
	h.Headers = handler.HeadersFull // the results come from headers
	// The trial has a worker of its own for words to leave out.
	words := h.FeaturesRaw["compress"]
	delete(h.FeaturesRaw, "compress")
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if err := h.LoadFeatures(ctx); err != nil {
		return nil, fmt.Errorf("replay: options of the handler: %w", err)
	}
	if words == nil {
		return h, nil
	}
	o := h.Feature("compress").(*compressor.Options) //nolint:forcetypeassert // this package imports it
	if err := json.Unmarshal(words, o); err != nil {
		return nil, fmt.Errorf("replay: options of the handler: compress: %w", err)
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("replay: options of the handler: %w", err)
	}
	return h, nil
}

func (d *drive) run(ctx context.Context) error {
	d.plain = pricing.NewSimulator(d.profile.Config())
	d.now = d.start
	err := d.conversation.Traces(func(t *recording.Trace) error { return d.part(ctx, t) })
	if err != nil {
		return err
	}
	for _, a := range d.arms {
		a.abandon()
		r := a.result
		r.Conversation, r.Agent = d.conversation.Name, d.conversation.Agent
		r.Base, r.BaseCost = d.baseline.usage, d.baseline.cost
		r.BaseMaxPrompt, r.BaseRejected = d.baseline.maxPrompt, d.baseline.rejected
		d.results = append(d.results, r)
	}
	return nil
}

func (d *drive) part(ctx context.Context, t *recording.Trace) error {
	next, err := t.Next()
	if err != nil {
		return noCalls(t, err)
	}
	if d.profile.Rules().BindsThinking {
		agent.Unbind(next.Messages)
	}
	client := agent.New(d.profile, d.conversation, &t.Header, next)
	from := d.start.Add(seconds(t.Header.Offset))
	for next != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := next
		if next, err = t.Next(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		agent.Sign(c.Messages)
		client.Add(c.Messages)
		r := &request{body: client.Body()}
		d.time(r, from, c)
		r.answer = last
		if next != nil && next.Messages[0].Role == "assistant" {
			// The answer to a request is the first message of the next one.
			answer := &next.Messages[0]
			agent.Sign(next.Messages[:1])
			r.answer = recorded(answer)
			if client, ok := client.(agent.Itemizer); ok {
				for i, item := range client.Items(answer) {
					r.answer.Blocks[i].Item = item
				}
			}
			r.edits = harm.Quotes(answer)
		}
		if err := d.send(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", t.Where(), err)
		}
		d.progress()
	}
	if s, ok := client.(agent.Summarizer); ok && d.summaries && t.Header.Part < t.Header.Parts {
		at := d.now.Add(unrecorded)
		if err := d.send(ctx, &request{body: s.Summary(), at: at, end: at, answer: last}); err != nil {
			return fmt.Errorf("%s: summary: %w", t.Where(), err)
		}
		d.now = at
	}
	return nil
}

func noCalls(t *recording.Trace, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("trace %s: no call", t.Where())
	}
	return err
}

func (d *drive) send(ctx context.Context, r *request) error {
	var err error
	if d.change != nil {
		if r.body, err = d.change(d.conversation, &d.profile, d.number, r.body); err != nil {
			return err
		}
	}
	d.number++
	r.view, err = wire.Parse(d.profile.Format, r.body, func(wire.Hash) *wire.Known { return d.known })
	if err != nil {
		return fmt.Errorf("replay: the body it built: %w", err)
	}
	d.known = r.view.Known()
	r.path, r.header = agent.Address(d.profile, d.conversation.Session)
	path, query, _ := strings.Cut(r.path, "?")
	r.view.Address(path, query)
	r.continued = d.continued(r.view)
	run, refused := d.plain.Begin(pricing.Call{View: r.view, Client: r.view, Credential: d.conversation.Session, At: r.at})
	if refused != nil {
		r.refused = true
		d.baseline.rejected++
	} else {
		u := run.Usage()
		run.FirstByte(r.at)
		r.base, r.baseCost = u, d.profile.Rules().Cost(u)
		d.baseline.usage = d.baseline.usage.Add(u)
		d.baseline.cost += r.baseCost
		d.baseline.maxPrompt = max(d.baseline.maxPrompt, u.Prompt())
	}
	if d.asked != nil {
		d.asked(&Asked{
			Conversation: d.conversation, Profile: d.profile, View: r.view, Continued: r.continued, Billed: r.base,
			Cost: r.baseCost, Edits: r.edits,
		})
	}
	for _, a := range d.arms {
		if err := a.run(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// continued reports whether a request begins with all blocks of the previous one.
func (d *drive) continued(v *wire.View) bool {
	now := make([]wire.Hash, len(v.Blocks))
	for i := range v.Blocks {
		now[i] = v.Blocks[i].Hash
	}
	before := d.before
	d.before = now
	return len(before) > 0 && len(before) <= len(now) && slices.Equal(before, now[:len(before)])
}

// time sets the times of the request and of the end of its response.
func (d *drive) time(r *request, from time.Time, c *recording.Call) {
	switch {
	case c.At != nil:
		r.at = from.Add(seconds(*c.At))
	case d.now.Equal(d.start):
		r.at = from
	default:
		r.at = d.now.Add(unrecorded)
	}
	// Time never goes back, though recorded times may.
	if r.at.Before(d.now) {
		r.at = d.now
	}
	r.end = r.at
	if c.End != nil {
		if end := from.Add(seconds(*c.End)); end.After(r.at) {
			r.end = end
		}
	}
	d.now = r.at
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// last is the answer to the last request of a trace, which no request contains.
var last = &simulator.Answer{Blocks: []simulator.Block{{Type: simulator.Text, Text: "Done."}}}

func recorded(m *recording.Message) *simulator.Answer {
	a := &simulator.Answer{}
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case "text":
			a.Blocks = append(a.Blocks, simulator.Block{Type: simulator.Text, Text: b.Text})
		case "thinking":
			a.Blocks = append(a.Blocks, simulator.Block{Type: simulator.Thinking, Text: b.Thinking, Signature: b.Signature})
		case "tool_use":
			a.Blocks = append(a.Blocks, simulator.Block{Type: simulator.ToolUse, ID: b.ID, Name: b.Name, Input: b.Input})
		}
	}
	return a
}
