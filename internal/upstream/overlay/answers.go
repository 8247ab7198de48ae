// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// answer is the model's own text, as it stands in the server's cache. at is the index of the
// message in which the client will send it back.
type answer struct {
	at             int
	thinking, text string
	calls          []wire.Call
	// seen is the hash of the client's last version of the message. differs reports a version other
	// than the model's, dropped one without its thinking.
	seen    uint64
	differs bool
	dropped bool
}

func (a *answer) size() int {
	n := 120 + len(a.thinking) + len(a.text)
	for i := range a.calls {
		n += 64 + len(a.calls[i].Name) + len(a.calls[i].Arguments)
	}
	return n
}

func answerOf(t *wire.Turn, at int) *answer {
	if t.Thinking == "" && t.Text == "" && len(t.Calls) == 0 {
		return nil
	}
	return &answer{at: at, thinking: t.Thinking, text: t.Text, calls: slices.Clone(t.Calls)}
}

var seed = maphash.MakeSeed()

// exact restores the model's own bytes of a rewritten but equal answer.
func (d *draft) exact(i, at int, m matched, next *conversation) {
	// Beyond the common messages, the answer belongs to another branch.
	if m.conversation == nil || at > m.common {
		return
	}
	n := slices.IndexFunc(m.conversation.answers, func(a answer) bool { return a.at == at })
	if n < 0 {
		return
	}
	a := m.conversation.answers[n]
	msg := &d.v.Messages[i]
	seen := maphash.Bytes(seed, d.v.Bytes(msg.Span))
	same := a.seen == seen && a.differs
	returns := a.seen == 0 // sent back for the first time
	a.seen = seen
	// An equal answer is forgotten, because it stays equal.
	if d.restore(msg, &a, same, returns) && a.differs {
		next.answers = append(next.answers, a)
	}
}

// restore restores the parts of an answer and reports whether the client's message is that answer. With same, an
// earlier request has established that.
func (d *draft) restore(msg *wire.Message, a *answer, same, returns bool) bool {
	var calls, texts []int
	thinking := -1
	for j := int(msg.First); j < int(msg.End); j++ {
		switch d.v.Blocks[j].Kind {
		case wire.KindToolUse:
			calls = append(calls, j)
		case wire.KindText:
			texts = append(texts, j)
		case wire.KindThinking:
			thinking = j
		default:
			return false
		}
	}
	if len(calls) != len(a.calls) {
		return false
	}
	changes := map[int]value{}
	if d.q.Rules.ExactAnswers {
		for k, j := range calls {
			raw, ok := d.arguments(j, a.calls[k], same)
			if !ok {
				return false
			}
			if raw != nil {
				changes[j] = value{d.v.Blocks[j].Body, raw}
			}
		}
		if len(texts) == 1 {
			j := texts[0]
			text := textOf(d.body(j))
			// A trimmed text is still the same answer.
			if strings.TrimSpace(text) != strings.TrimSpace(a.text) {
				return false
			}
			if text != a.text {
				v, ok := d.values[j]
				if !ok {
					v.span = d.v.Blocks[j].Body
				}
				changes[j] = value{v.span, quote(a.text)}
			}
		}
	}
	if d.v.Traits().ServersVary && d.q.Rules.Thinking && a.thinking != "" {
		switch {
		case thinking < 0 && (returns || a.dropped):
			a.dropped, a.differs = true, true
			at := msg.Span.Start + 1
			// Insert the member in front of all others, or replace a null.
			cut := wire.Cut{Start: at, End: at, With: append(append([]byte(`"reasoning_content":`), quote(a.thinking)...), ',')}
			if null := gjson.GetBytes(d.v.Bytes(msg.Span), "reasoning_content"); null.Exists() {
				cut.Start = msg.Span.Start + int32(null.Index)
				cut.End, cut.With = cut.Start+int32(len(null.Raw)), quote(a.thinking)
			}
			d.cuts = append(d.cuts, cut)
		case thinking >= 0:
			b := &d.v.Blocks[thinking]
			text := textOf(d.v.Bytes(b.Body))
			dropped := text == "" && (returns || a.dropped)
			if dropped || text != a.thinking && strings.TrimSpace(text) == strings.TrimSpace(a.thinking) {
				changes[thinking], a.dropped = value{b.Body, quote(a.thinking)}, a.dropped || dropped
			}
		}
	}
	for j, v := range changes {
		d.values[j] = v
		a.differs = true
	}
	return true
}

// arguments returns a call's arguments in the model's own bytes, nil for the same bytes, false for different
// arguments.
func (d *draft) arguments(j int, was wire.Call, same bool) ([]byte, bool) {
	b := &d.v.Blocks[j]
	if d.v.Text(b.Name) != was.Name || b.Body.Empty() {
		return nil, false
	}
	now := d.v.Bytes(b.Body)
	text := now
	if d.v.Traits().ArgumentsText {
		text = []byte(textOf(now))
	}
	if string(text) == was.Arguments {
		return nil, true
	}
	// Comparing values is costly, and an unchanged message was compared before.
	if !same && !equal(text, []byte(was.Arguments)) {
		return nil, false
	}
	if d.v.Traits().ArgumentsText {
		return quote(was.Arguments), true
	}
	return []byte(was.Arguments), true
}

func equal(a, b []byte) bool {
	var x, y any
	for _, f := range []struct {
		text []byte
		to   *any
	}{{a, &x}, {b, &y}} {
		dec := json.NewDecoder(bytes.NewReader(f.text))
		// Large numbers must not become equal by rounding.
		dec.UseNumber()
		if dec.Decode(f.to) != nil || dec.More() {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
