// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// reader fills a Request.
type reader struct {
	q    *Request
	from *spoken
	// spell puts the name of a member into the one form that is gone by. Nil: there
	// are no others.
	spell func(string) string
	// at is where in the body the reader is, for the names of fields.
	at []step
	// pending are the calls that no result has answered yet, for formats
	// without ids.
	pending pending
	// loaded are the names of deferred tools in the order in which results
	// referred to them.
	loaded []string
	// hosted is the path of a tool that the provider itself would run.
	hosted string
	// grown is the text that was put together last.
	grown   text
	scratch []byte
	entries int // that were read
}

// step is a member of an object, and an index if the member is an array.
type step struct {
	name  string
	index int
}

func (r *reader) read(in Incoming) error {
	if wire.Crowded(in.Body) {
		return wire.ErrCrowded
	}
	body := raw(in.Body).trim()
	err := r.from.read(r, body, in)
	if r.entries > wire.MaxElements {
		return wire.ErrCrowded
	}
	if err != nil {
		return err
	}
	if r.hosted != "" && len(r.q.Tools) == 0 {
		return &Unsupported{Field: r.hosted, Reason: "a tool that the provider runs has no counterpart at this upstream"}
	}
	if r.q.Messages == nil || len(r.q.Messages)+len(r.q.System) == 0 {
		return fmt.Errorf("%w: it has no messages", ErrBody)
	}
	return r.sides()
}

// sides checks that only the model calls and only the user answers.
func (r *reader) sides() error {
	for _, m := range r.q.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role != Assistant && p.Kind == CallPart:
				return fmt.Errorf("%w: a call of a tool that is not the model's", ErrBody)
			case m.Role != User && p.Kind == ResultPart:
				return fmt.Errorf("%w: a result of a tool that is not the user's", ErrBody)
			}
		}
	}
	return nil
}

func (r *reader) enter(name string, index int) { r.at = append(r.at, step{name, index}) }
func (r *reader) leave()                       { r.at = r.at[:len(r.at)-1] }

// elements yields the elements of an array as long as the request has not too
// many of them: what they become takes more memory than they do.
func (r *reader) elements(v raw) iter.Seq2[int, raw] {
	return func(yield func(int, raw) bool) {
		for i, e := range v.elements() {
			if r.entries++; r.entries > wire.MaxElements || !yield(i, e) {
				return
			}
		}
	}
}

// path returns the path of a field where the reader is.
func (r *reader) path(field string) string {
	return string(r.appendPath(nil, field, true))
}

func (r *reader) appendPath(b []byte, field string, indices bool) []byte {
	for _, s := range r.at {
		b = append(b, s.name...)
		if s.index >= 0 {
			b = append(b, '[')
			if indices {
				b = strconv.AppendInt(b, int64(s.index), 10)
			}
			b = append(b, ']')
		}
		b = append(b, '.')
	}
	if field == "" {
		return b[:max(len(b)-1, 0)]
	}
	// Names come from the client and go into a header.
	for i := 0; i < len(field) && i < 48; i++ {
		switch c := field[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_-.[]", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '?')
		}
	}
	return b
}

// maxDropped bounds the list of fields that are left out.
const maxDropped = 64

// drop lists a field that is left out toward every other format.
func (r *reader) drop(field string) {
	r.scratch = r.appendPath(r.scratch[:0], field, false)
	if r.q.dropped == nil {
		r.q.dropped = map[string]bool{}
	}
	if len(r.q.dropped) < maxDropped && !r.q.dropped[string(r.scratch)] {
		r.q.dropped[string(r.scratch)] = true
	}
}

// dropUsed lists a field unless its value says that it is not used.
func (r *reader) dropUsed(field string, v raw) {
	if !v.absent() {
		r.drop(field)
	}
}

// dropOthers lists the members of an object that are in use, but none of those
// known.
func (r *reader) dropOthers(v raw, known ...string) {
	for key, m := range v.members() {
		if r.spell != nil {
			key = r.spell(key)
		}
		if !slices.Contains(known, key) {
			r.dropUsed(key, m)
		}
	}
}

// dropIn is dropOthers for the value of a member.
func (r *reader) dropIn(field string, v raw, known ...string) {
	r.enter(field, -1)
	r.dropOthers(v, known...)
	r.leave()
}

func (r *reader) refuse(field, reason string) error {
	return &Unsupported{Field: r.path(field), Reason: reason}
}

func (r *reader) malformed(field string) error {
	return fmt.Errorf("%w: %s", ErrBody, r.path(field))
}

// param keeps the value of a parameter by its name in the client's format.
func (r *reader) param(name string, v raw) bool {
	for p, own := range r.from.rules.params {
		if own == name {
			if !v.absent() || v.isNumber() {
				r.q.Params[p] = v
			}
			return true
		}
	}
	return false
}

// input returns the arguments of a call, which come as the text of a JSON
// object, or as the object itself. A model's broken arguments stay readable as a
// text in an object.
func input(v raw) raw {
	arguments := v.text()
	switch {
	case v.isObject():
		return v
	case !v.isString() && !v.absent():
		arguments = escaped(string(v))
	}
	b := raw(arguments.appendDecoded(make([]byte, 0, len(arguments)))).trim()
	switch {
	case len(b) == 0, string(b) == "null":
		return raw("{}")
	case wellFormed(b) == nil:
		return b
	}
	return append(append(raw(`{"arguments":"`), arguments...), `"}`...)
}

// message appends a message. An empty one of the user still asks for an answer.
func (r *reader) message(role Role, parts []Part) {
	if len(parts) > 0 || role == User {
		r.q.Messages = append(r.q.Messages, Message{Role: role, Parts: parts})
	}
}

// join appends parts to the last message if it is of the same role.
func (r *reader) join(role Role, parts ...Part) {
	if n := len(r.q.Messages); n > 0 && r.q.Messages[n-1].Role == role {
		r.q.Messages[n-1].Parts = append(r.q.Messages[n-1].Parts, parts...)
		return
	}
	r.message(role, parts)
}

// thinking returns a part of reasoning with what the client keeps in the place
// of a proof.
func (r *reader) thinking(t text, proof string) Part {
	p := Part{Kind: ThinkingPart, Text: t, Sealed: Sealed{Format: r.q.Format, Data: proof}}
	if s, ok := Unseal(proof); ok {
		p.Sealed = s
		if s.Text != "" {
			p.Text = escaped(s.Text)
		}
	}
	return p
}

// dataURL takes data:image/png;base64,… apart.
func dataURL(t text) (mediaType string, data text, ok bool) {
	s, ok := strings.CutPrefix(string(t), "data:")
	if !ok {
		return "", nil, false
	}
	head, _, ok := strings.Cut(s, ",")
	if !ok {
		return "", nil, false
	}
	mediaType, ok = strings.CutSuffix(head, ";base64")
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return text(mediaType).decoded(), t[len("data:")+len(head)+1:], ok
}
