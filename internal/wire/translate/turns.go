// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"errors"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Turns is the translation of the turns of a conversation between its first prompt and its last answers, for the
// next request: that request is translated without these turns, and their translation is inserted. The result is
// the same as without Turns. A Turns is immutable, and does no harm in another conversation: it is used only for a
// request with the same bytes.
//
// The turns begin with an answer of the model and end before another one, so that no message is joined with one
// outside. Whatever else could tie a message to another one prevents their use: see [Reader.DependsOnAll] and
// [Writer.follows].
type Turns struct {
	// What the translation depends on: formats, model, address, options, and a hash of the body's other members.
	from, to    wire.Format
	model       string
	path, query string
	options     Options
	sum         uint64

	// The client's bytes: length is that of the list of messages up to the end of the turns, first that of its
	// part before them, and bytes a hash of all these.
	length, first int
	bytes         uint64
	// elements are the elements of the list in the turns, entries all their entries.
	elements, entries int

	// translated are the upstream's bytes in pieces, each with a comma first. dropped are the fields dropped of
	// them.
	translated [][]byte
	dropped    []string
	// ids are hashes of the ids of the calls. names are the tools that only the turns name.
	ids   []uint64
	names []ToolName
	// tools are the list of tools of the request, nil for none.
	tools *toolList
}

const (
	// minRemembered is the smallest body for which turns are remembered, in bytes: smaller ones are
	// translated in little time.
	minRemembered = 8 << 10
	// minPiece is the length up to which a piece of a translation is merged with the next one.
	minPiece = 16 << 10
)

// turnsSeed makes the hashes unpredictable for clients.
var turnsSeed = maphash.String(maphash.MakeSeed(), "turns")

func hashID(id string) uint64 { return xxh3.HashStringSeed(id, turnsSeed) }

// Size returns the memory that the turns take, in bytes.
func (t *Turns) Size() int64 {
	size := int64(unsafe.Sizeof(*t)) + int64(len(t.ids))*8 + t.tools.size()
	for _, b := range t.translated {
		size += int64(len(b) + int(unsafe.Sizeof(b)))
	}
	return size
}

// errWhole reports a request that cannot be translated without its earlier turns.
var errWhole = errors.New("the request depends on its earlier turns")

// convert translates a request that contains the turns, false if it does not or depends on them.
func (t *Turns) convert(from, to wire.Format, in Incoming, o Options) (*Outgoing, bool) {
	if t == nil || t.from != from || t.to != to || t.path != in.Path || t.query != in.Query || !sameOptions(t.options, o) ||
		rawjson.Crowded(in.Body) {
		return nil, false
	}
	list := messageList(from, in.Body)
	if list < 0 || len(in.Body)-list < t.length {
		return nil, false
	}
	sum := xxh3.NewSeed(turnsSeed)
	_, _ = sum.Write(in.Body[list : list+t.length])
	if sum.Sum64() != t.bytes {
		return nil, false
	}
	rest := in
	var without omitted
	rest.Body, without = t.omit(in.Body, list)
	defer reuse.Recycle(rest.Body) // the result has no part of it
	q, err := read(from, rest, t, without)
	if err != nil || q.sum != t.sum || q.list != without.list ||
		without.tools > 0 && q.tools != t.tools {
		return nil, false
	}
	w := newWriter(to, q, o, len(in.Body)-t.length+t.first)
	w.known = t
	if w.Model != t.model || w.write() != nil || q.whole || len(w.dropped) >= maxDropped {
		reuse.Recycle(w.Body)
		return nil, false
	}
	out := w.outgoing(in)
	out.Turns = w.remember(in, list, sum)
	return out, true
}

// omitted has the places in a body without the known turns and tools.
type omitted struct {
	list  int // the list of messages
	tools int // a list of no tools in place of the known ones, 0 if the body has its own
}

// omit returns a copy of a body without the turns, and without the tools if they are the known ones.
func (t *Turns) omit(body []byte, list int) ([]byte, omitted) {
	out := reuse.Buffer(len(body) - t.length + t.first)
	start, end := list+t.first, list+t.length
	at := t.tools.find(body, list)
	switch {
	case at > 0 && at+len(t.tools.raw) <= list:
		out = append(append(append(out, body[:at]...), "[]"...), body[at+len(t.tools.raw):start]...)
		return append(out, body[end:]...), omitted{list - len(t.tools.raw) + len("[]"), at}
	case at >= end:
		out = append(append(append(out, body[:start]...), body[end:at]...), "[]"...)
		return append(out, body[at+len(t.tools.raw):]...), omitted{list, at - end + start}
	}
	return append(append(out, body[:start]...), body[end:]...), omitted{list: list}
}

func sameOptions(a, b Options) bool {
	a.Model, b.Model = nil, nil // see Turns.model
	return reflect.DeepEqual(a, b)
}

// messageList returns the index of a body's list of messages, -1 for none.
func messageList(f wire.Format, body []byte) int {
	codec := f.Codec()
	for m := rawjson.Walk(body, 0); m.Next(); m.Skip() {
		if string(codec.Name(m.Key)) == "messages" {
			if body[m.At] != '[' {
				return -1
			}
			return m.At
		}
	}
	return -1
}

// follows finds the message before which the known turns belong, and reports whether they are independent of the
// messages there.
func (w *Writer) follows() bool {
	at := int32(w.Request.list + w.known.first)
	w.tail = slices.IndexFunc(w.Messages, func(m Message) bool { return m.origin.at == at && m.Role == Assistant })
	if w.tail < 1 || w.Messages[w.tail-1].Role != User {
		return false
	}
	for _, m := range w.Messages[w.tail:] {
		for i := range m.Parts {
			// A result may belong to a call in the turns, and a call may repeat the id of one.
			if p := &m.Parts[i]; (p.Kind == CallPart || p.Kind == ResultPart) && slices.Contains(w.known.ids, hashID(p.ID)) {
				return false
			}
		}
	}
	return true
}

// start is the beginning of a message in the output.
type start struct {
	body  int // index in the body
	names int // number of changes to the names before it
}

// EachMessage calls write for each message.
func (w *Writer) EachMessage(write func(Message) error) error {
	w.starts = make([]start, 0, len(w.Messages))
	for i, m := range w.Messages {
		if w.known != nil && i == w.tail {
			for _, n := range w.known.names {
				w.Names.Upstream(n)
			}
			for _, field := range w.known.dropped {
				w.dropped.add(field, 0)
			}
		}
		if m.origin.at > 0 { // results follow the message with their calls
			w.place = m.origin.at
		}
		w.starts = append(w.starts, start{len(w.Body), len(w.Names.changes)})
		if err := write(m); err != nil {
			return err
		}
	}
	return nil
}

// remember returns the translated turns for the next request: the known ones and those up to the last answer before
// which nothing is marked, because clients move their markers. It returns nil for none. list is the index of the
// messages in the body, and sum has hashed the bytes of the known turns.
func (w *Writer) remember(in Incoming, list int, sum *xxh3.Hasher) *Turns {
	q, t := w.Request, w.known
	if q.whole || len(w.dropped) >= maxDropped {
		return nil
	}
	from := w.tail
	if t == nil {
		from = slices.IndexFunc(w.Messages, func(m Message) bool { return m.origin.at > 0 && m.Role == Assistant })
		if from < 1 || w.Messages[from-1].Role != User {
			return nil
		}
		t = &Turns{
			from: q.Format, to: w.To, model: w.Model, path: in.Path, query: in.Query, options: w.Options, sum: q.sum,
			first: int(w.Messages[from].origin.at) - q.list,
		}
		t.length, t.options.Model = t.first, nil
		_, _ = sum.Write(in.Body[list : list+t.first])
	}
	to := from
	for i := from; i+1 < len(w.Messages) && !isMarked(w.Messages[i].Parts); i++ {
		if next := &w.Messages[i+1]; w.Messages[i].Role == User && next.Role == Assistant && next.origin.at > 0 {
			to = i + 1
		}
	}
	if to == from {
		return w.known
	}
	next := *t
	next.tools = w.rememberTools()
	first, end := w.Messages[from].origin, w.Messages[to].origin
	next.length += int(end.at - first.at)
	_, _ = sum.Write(in.Body[list+t.length : list+next.length])
	next.bytes = sum.Sum64()
	next.elements += int(end.element - first.element)
	next.entries += int(end.entries - first.entries)
	next.translated = appendPiece(t.translated, w.Body[w.starts[from].body:w.starts[to].body])
	next.names = append(slices.Clip(t.names), w.Names.changes[w.starts[from].names:w.starts[to].names]...)
	next.dropped = slices.Clip(t.dropped)
	for field, at := range w.dropped {
		if at >= first.at && at < end.at && !slices.Contains(next.dropped, field) {
			next.dropped = append(next.dropped, field)
		}
	}
	next.ids = slices.Clip(t.ids)
	for _, m := range w.Messages[from:to] {
		for i := range m.Parts {
			if m.Parts[i].Kind == CallPart {
				next.ids = append(next.ids, hashID(m.Parts[i].ID))
			}
		}
	}
	return &next
}

func isMarked(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Cache != nil || isMarked(p.Content) })
}

// appendPiece returns the pieces with another one. Pieces are never changed, because earlier [Turns] share them.
func appendPiece(pieces [][]byte, b []byte) [][]byte {
	if n := len(pieces); n > 0 && len(pieces[n-1]) < minPiece {
		return append(slices.Clip(pieces[:n-1]), slices.Concat(pieces[n-1], b))
	}
	return append(slices.Clip(pieces), bytes.Clone(b))
}

// body returns the written body, with the known turns in their place.
func (w *Writer) body() *wire.Body {
	if w.known == nil {
		return &wire.Body{Raw: w.Body}
	}
	at := int32(w.starts[w.tail].body)
	turns := make([]wire.Cut, len(w.known.translated))
	for i, b := range w.known.translated {
		turns[i] = wire.Cut{Start: at, End: at, With: b}
	}
	body, _ := wire.NewBody(w.Body, turns...) // insertions do not overlap
	return body
}

// outgoing returns the written request.
func (w *Writer) outgoing(in Incoming) *Outgoing {
	q := w.Request
	out := &Outgoing{
		Body: w.body(), Names: w.Names, Stream: q.Stream, Stop: w.stop,
		IncludeUsage: q.IncludeUsage, Model: q.Model, Empty: q.FillsCache, Added: w.added,
	}
	out.Path, out.Query = endpoint(q.Format, w.To, in.Path, w.Model, q.Stream)
	out.Dropped = slices.Sorted(maps.Keys(w.dropped))
	return out
}
