// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

// Reader fills a [Request].
type Reader struct {
	// Request is the request to fill.
	Request *Request
	from    *spoken
	// Spell normalizes the spelling of a member name. Nil: there is only one spelling.
	Spell func(string) string
	// at is the current position in the body, for field names.
	at []step
	// Hosted is the path of a tool of the provider's own.
	Hosted  string
	scratch []byte
	entries int // entries read
	index   rawjson.Index
	origin  origin // the current element of the list of messages
	sum     xxh3.Hasher
	// known are the turns that the body is without, nil for none.
	known   *Turns
	without omitted
	// remember keeps the tools for the next request.
	remember bool
	// Parts are the parts of the lists being read. The parts of an inner list follow those of the
	// outer list.
	Parts []Part
}

// step is a member of an object, and an index for an array.
type step struct {
	name  string
	index int
}

func (r *Reader) read(in Incoming) error {
	if rawjson.Crowded(in.Body) {
		return wire.ErrCrowded
	}
	body := rawjson.Value(in.Body).Trim()
	err := r.from.ReadRequest(r, body, in)
	if r.entries > wire.MaxElements {
		return wire.ErrCrowded
	}
	if err != nil {
		return err
	}
	// With other tools, the provider's own one is dropped.
	if r.Hosted != "" && len(r.Request.Tools) == 0 {
		return &Unsupported{Field: r.Hosted, Reason: "a tool that the provider runs has no counterpart at this upstream"}
	}
	if r.Request.Messages == nil || len(r.Request.Messages)+len(r.Request.System) == 0 {
		return fmt.Errorf("%w: it has no messages", ErrBody)
	}
	return r.sides()
}

// sides checks the roles: thinking and calls belong to the model, results to the user.
func (r *Reader) sides() error {
	for _, m := range r.Request.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role != Assistant && p.Kind == ThinkingPart:
				return fmt.Errorf("%w: a thought that is not the model's", ErrBody)
			case m.Role != Assistant && p.Kind == CallPart:
				return fmt.Errorf("%w: a call of a tool that is not the model's", ErrBody)
			case m.Role != User && p.Kind == ResultPart:
				return fmt.Errorf("%w: a result of a tool that is not the user's", ErrBody)
			}
		}
	}
	return nil
}

// Enter moves the position to a member, and with an index of 0 or more to its element. The position
// is only used for field names.
func (r *Reader) Enter(name string, index int) { r.at = append(r.at, step{name, index}) }

// Leave undoes one [Reader.Enter].
func (r *Reader) Leave() { r.at = r.at[:len(r.at)-1] }

// Elements yields the elements of an array, up to the limit of [wire.MaxElements].
func (r *Reader) Elements(v rawjson.Value) iter.Seq2[int, rawjson.Value] {
	return func(yield func(int, rawjson.Value) bool) {
		for i, e := range r.index.Elements(v) {
			// Parsed elements take more memory than their bytes.
			if r.entries++; r.entries > wire.MaxElements || !yield(i, e) {
				return
			}
		}
	}
}

// MessageElements is [Reader.Elements] for the list of messages.
func (r *Reader) MessageElements(v rawjson.Value) iter.Seq2[int, rawjson.Value] {
	return func(yield func(int, rawjson.Value) bool) {
		for i, e := range r.Elements(v) {
			at := r.offset(e)
			if r.known != nil && at >= r.Request.list+r.known.first {
				i += r.known.elements // the index in the client's list
			}
			r.origin = origin{int32(at), int32(i), int32(r.entries - 1)}
			if !yield(i, e) {
				return
			}
		}
		r.origin = origin{}
	}
}

// offset returns the index of a value in the body. Subslices share the end of their capacity.
func (r *Reader) offset(v rawjson.Value) int { return cap(r.index.Text()) - cap(v) }

// DependsOnAll declares that the translation depends on all messages, so that it is not remembered.
func (r *Reader) DependsOnAll() { r.Request.whole = true }

// Members yields the members of an object.
func (r *Reader) Members(v rawjson.Value) iter.Seq2[string, rawjson.Value] { return r.index.Members(v) }

// BodyMembers yields the members of the body and hashes them, apart from the messages and the system prompt.
func (r *Reader) BodyMembers(body rawjson.Value) iter.Seq2[string, rawjson.Value] {
	return func(yield func(string, rawjson.Value) bool) {
		r.sum.ResetSeed(turnsSeed)
		for key, v := range r.index.Members(body) {
			if r.without.tools > 0 && r.offset(v) == r.without.tools {
				v = r.known.tools.raw
			}
			switch string(r.Request.Format.Codec().Name([]byte(key))) {
			case "messages":
				r.Request.list = r.offset(v)
			case "system":
			default:
				_, _ = r.sum.WriteString(key)
				_, _ = r.sum.WriteString(":")
				_, _ = r.sum.Write(v)
			}
			if !yield(key, v) {
				return
			}
		}
		r.Request.sum = r.sum.Sum64()
	}
}

// Member returns a member of an object, nil for none.
func (r *Reader) Member(v rawjson.Value, name string) rawjson.Value { return r.index.Member(v, name) }

// Add appends parts to the current list.
func (r *Reader) Add(parts ...Part) { r.Parts = reuse.Append(r.Parts, parts...) }

// Gather returns and removes the parts from index n on, nil for none.
func (r *Reader) Gather(n int) []Part {
	if len(r.Parts) == n {
		return nil
	}
	parts := slices.Clone(r.Parts[n:])
	r.Parts = r.Parts[:n]
	return parts
}

// Path returns the path of a field at the current position.
func (r *Reader) Path(field string) string {
	return string(r.appendPath(nil, field, true))
}

func (r *Reader) appendPath(b []byte, field string, indices bool) []byte {
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
	// Names come from the client and are sent in a response header.
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

// maxDropped is the maximum number of dropped fields listed.
const maxDropped = 64

// dropped maps the client's fields that the upstream does not get to the first entry of the messages with
// the field, by its index in the body; 0 for fields outside of the messages.
type dropped map[string]int32

func (d dropped) add(field string, at int32) {
	if before, known := d[field]; known && before == 0 || !known && len(d) < maxDropped {
		d[field] = at
	}
}

// Drop lists a field that no other format supports.
func (r *Reader) Drop(field string) {
	r.scratch = r.appendPath(r.scratch[:0], field, false)
	if r.Request.dropped == nil {
		r.Request.dropped = dropped{}
	}
	if at, known := r.Request.dropped[string(r.scratch)]; !known || at == 0 {
		r.Request.dropped.add(string(r.scratch), r.origin.at)
	}
}

// DropUsed lists a field, unless its value means that it is unused.
func (r *Reader) DropUsed(field string, v rawjson.Value) {
	if !v.Absent() {
		r.Drop(field)
	}
}

// DropOthers lists the used members of an object, except the known ones.
func (r *Reader) DropOthers(v rawjson.Value, known ...string) {
	for key, m := range r.Members(v) {
		if r.Spell != nil {
			key = r.Spell(key)
		}
		if !slices.Contains(known, key) {
			r.DropUsed(key, m)
		}
	}
}

// DropIn is DropOthers for the value of a member.
func (r *Reader) DropIn(field string, v rawjson.Value, known ...string) {
	r.Enter(field, -1)
	r.DropOthers(v, known...)
	r.Leave()
}

// Refuse returns the error for a field that cannot be converted.
func (r *Reader) Refuse(field, reason string) error {
	return &Unsupported{Field: r.Path(field), Reason: reason}
}

// Malformed returns the error for a field of an invalid type.
func (r *Reader) Malformed(field string) error {
	return fmt.Errorf("%w: %s", ErrBody, r.Path(field))
}

// Param stores the value of a parameter and reports whether the format has one of this name.
func (r *Reader) Param(name string, v rawjson.Value) bool {
	for p, member := range r.from.rules.Params {
		if member == name || name == extensions[p] {
			if !v.Absent() || v.IsNumber() {
				r.Request.Params[p] = v
			}
			return true
		}
	}
	return false
}

// CallInput returns the arguments of a call, given as a string with JSON or as an object.
func CallInput(v rawjson.Value) rawjson.Value {
	arguments := v.Text()
	switch {
	case v.IsObject():
		return v
	case !v.IsString() && !v.Absent():
		arguments = rawjson.Escaped(string(v))
	}
	b := rawjson.Value(arguments.AppendDecoded(make([]byte, 0, len(arguments)))).Trim()
	switch {
	case len(b) == 0, string(b) == "null":
		return rawjson.Value("{}")
	case WellFormed(b) == nil:
		return b
	}
	// Broken arguments stay readable, as the one member of an object.
	return append(append(rawjson.Value(`{"arguments":"`), arguments...), `"}`...)
}

// Content reads a content: a text, or an array with each called per element. An absent content
// gives nil, any other type is malformed.
func (r *Reader) Content(field string, v rawjson.Value, each func(v rawjson.Value) error) ([]Part, error) {
	switch {
	case v.IsString():
		return []Part{{Text: v.Text()}}, nil
	case !v.IsArray() && v.Absent():
		return nil, nil
	case !v.IsArray():
		return nil, r.Malformed(field)
	}
	n := len(r.Parts)
	for i, e := range r.Elements(v) {
		r.Enter(field, i)
		if err := each(e); err != nil {
			return nil, err
		}
		r.Leave()
	}
	return r.Gather(n), nil
}

// Stops reads a list of stop sequences.
func (r *Reader) Stops(v rawjson.Value) {
	for _, s := range r.Elements(v) {
		r.Request.Stop = append(r.Request.Stop, s.Text())
	}
}

// Message appends a message.
func (r *Reader) Message(role Role, parts []Part) {
	// An empty user message still requests an answer.
	if len(parts) > 0 || role == User {
		r.Request.Messages = reuse.Append(r.Request.Messages, Message{role, parts, r.origin})
	}
}

// Join appends parts to the last message if it has the same role.
func (r *Reader) Join(role Role, parts ...Part) {
	if n := len(r.Request.Messages); n > 0 && r.Request.Messages[n-1].Role == role {
		r.Request.Messages[n-1].Parts = reuse.Append(r.Request.Messages[n-1].Parts, parts...)
		return
	}
	r.Message(role, parts)
}

// Thinking returns a part of reasoning. The proof is the client's signature string, possibly one of
// [Flow.Seal].
func (r *Reader) Thinking(t rawjson.Text, proof string) Part {
	p := Part{Kind: ThinkingPart, Text: t, Sealed: &seal.Sealed{Format: r.Request.Format, Data: proof}}
	// The proof may be a seal for another format, see [Flow.Seal].
	if s, ok := seal.Open(proof); ok {
		p.Sealed = &s
		if s.Text != "" {
			p.Text = rawjson.Escaped(s.Text)
		}
	}
	return p
}

// SignCall moves the signature from the preceding reasoning to a call. Reasoning without text is
// removed.
func (r *Reader) SignCall(p *Part) {
	n := len(r.Request.Messages)
	if n == 0 || r.Request.Messages[n-1].Role != Assistant {
		return
	}
	parts := r.Request.Messages[n-1].Parts
	at := len(parts) - 1
	if at < 0 || !parts[at].Proof().Call {
		return
	}
	p.Signature = parts[at].Sealed.Data
	if parts[at].Sealed = nil; parts[at].Text.Empty() {
		r.Request.Messages[n-1].Parts = parts[:at]
	}
}

// ContextManagement reads the provider's options for long conversations. They are dropped, except
// compaction, which is refused.
func (r *Reader) ContextManagement(key string, v, edits rawjson.Value) error {
	for _, e := range edits.Elements() {
		if strings.HasPrefix(e.Member("type").Str(), "compact") {
			// The client relies on compaction to stay within the window.
			return r.Refuse(key, CannotCompact)
		}
	}
	r.DropUsed(key, v)
	return nil
}

// DataURL splits data:image/png;base64,… into media type and data.
func DataURL(t rawjson.Text) (mediaType string, data rawjson.Text, ok bool) {
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
	return rawjson.Text(mediaType).Decoded(), t[len("data:")+len(head)+1:], ok
}
