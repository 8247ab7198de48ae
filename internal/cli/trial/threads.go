// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/threads"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// threading is a client that keeps its conversation in a thread at the provider.
type threading struct {
	before *wire.View // the last whole request
	answer string     // the id of its response
}

// goesOn returns the new messages of a request, nil if it does not continue the last response.
func (t *threading) goesOn(v *wire.View) []byte {
	if t.before == nil || t.answer == "" {
		return nil
	}
	n := len(t.before.Messages)
	then, now := t.before.MessageBlocks(), v.MessageBlocks()
	if len(v.Messages) <= n+1 || v.Messages[n].Role != wire.RoleAssistant || len(now) < len(then) {
		return nil
	}
	for i := range then {
		if then[i].Hash != now[i].Hash {
			return nil
		}
	}
	return rawjson.Span{Start: v.Messages[n+1].Span.Start, End: v.Messages[len(v.Messages)-1].Span.End}.Of(v.Raw)
}

// body returns a request as the client sends it: whole if more is nil.
func (t *threading) body(whole, more []byte) ([]byte, error) {
	if more == nil {
		return wire.Patch(whole, wire.Member{Name: "thread", Value: []byte(`{"type":"create"}`)})
	}
	// Like Claude Code, the client sends new messages only, with system prompt and tools each time.
	return wire.Patch(whole,
		wire.Member{Name: "messages", Value: append(append([]byte{'['}, more...), ']')},
		wire.Member{Name: "thread", Value: []byte(`{"type":"continue","previous_message_id":"` + t.answer + `"}`)})
}

// sendThreaded sends a request as part of a thread.
func (a *arm) sendThreaded(ctx context.Context, c *request) (*sink, error) {
	t := a.thread
	more := t.goesOn(c.view)
	if more != nil {
		a.result.Continued++
	}
	for {
		body, err := t.body(c.body, more)
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		header := c.header.Clone()
		header.Set("Anthropic-Beta", threads.Beta)
		w := &sink{header: http.Header{}, answer: wire.NewDecoder(a.profile.Format, c.view.Reply.Stream)}
		if err := a.serve(ctx, c, header, body, w); err != nil {
			return nil, err
		}
		if w.status != http.StatusOK {
			if code := gjson.GetBytes(w.failure, "error.details.error_code").Str; more != nil && code != "" {
				// The provider lacks the thread: the whole request goes.
				a.result.Replayed++
				more = nil
				continue
			}
			t.before = nil
			return w, nil
		}
		t.before, t.answer = c.view, w.answer.Turn().ID
		return w, a.remembers(c)
	}
}

func (a *arm) whole(c *request) (*wire.View, error) {
	v, err := wire.Parse(a.profile.Format, a.sent, nil)
	if err != nil {
		return nil, fmt.Errorf("replay: what has arrived: %w", err)
	}
	if got, want := len(v.Messages), len(c.view.Messages); got != want {
		return nil, fmt.Errorf("replay: the model got %d messages of %d", got, want)
	}
	a.changed = a.differs(v, c.view)
	return v, nil
}

func (a *arm) differs(got, said *wire.View) bool {
	if len(got.Blocks) != len(said.Blocks) {
		return true
	}
	same := func(a, b wire.Block) bool { return a.Hash == b.Hash }
	if !slices.EqualFunc(got.Blocks[:said.System], said.Blocks[:said.System], same) {
		return true
	}
	from := said.System
	for _, m := range said.Messages {
		end := int(m.End)
		if !slices.EqualFunc(got.Blocks[from:end], said.Blocks[from:end], same) {
			return true
		}
		from = end
	}
	return false
}

// remembers returns an error if the model did not get the whole request.
func (a *arm) remembers(c *request) error {
	v, err := a.whole(c)
	if err != nil {
		return err
	}
	if len(v.Blocks) < c.view.System || len(v.Blocks) > len(c.view.Blocks) {
		return errOther
	}
	// Only the blocks after the system prompt may be edited.
	for i := range min(c.view.System, len(v.Blocks)) {
		if v.Blocks[i].Hash != c.view.Blocks[i].Hash {
			return errOther
		}
	}
	return nil
}

// errOther says that the model's conversation is not the client's.
var errOther = errors.New("replay: the model got another conversation")
