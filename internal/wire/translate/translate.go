// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Incoming is a client's request.
type Incoming struct {
	// Body is the body after content decoding.
	Body []byte
	// Path is the request's path. In the Gemini format it has the model and whether the answer is
	// streamed.
	Path string
	// Query is the raw query, without the question mark.
	Query string
	// Turns are those of the conversation's last request, nil for none. Remember asks for those of this one.
	Turns    *Turns
	Remember bool
}

// Outgoing is a request for the upstream, with the data for converting the answer.
type Outgoing struct {
	// Body is the new body. Its Raw is Incoming.Body if both formats are the same, else a buffer for
	// [reuse.Recycle].
	Body *wire.Body
	// Path is the path of the upstream's endpoint. The prefix of the client's path is kept.
	Path string
	// Query is the raw query to send.
	Query string
	// Dropped lists the client's fields without an equivalent at the upstream as unique sorted
	// paths without content: "messages[].cache_control".
	Dropped []string
	// Names maps tool names in the answer back to the client's.
	Names *Names
	// Stream reports whether the client asked for a streamed answer.
	Stream bool
	// IncludeUsage reports whether a chat client asked for a usage chunk at the end of a stream. It
	// is true for all other formats.
	IncludeUsage bool
	// Empty: the client requested no answer, only a cached prompt. Formats without such an option
	// request the minimum, and the content is dropped.
	Empty bool
	// Model is the client's name of the requested model.
	Model string
	// Added reports whether the body has any of the additions that [Options.Plain] omits.
	Added bool
	// Stop are the client's stop sequences if the upstream's format has none. The answer must be
	// cut before the first of them, see [Stops].
	Stop []string
	// Turns are for the conversation's next request, nil for none.
	Turns *Turns
}

// ErrBody reports a body that is not a request of its format. It has no content.
var ErrBody = errors.New("not a request of this format")

// Unsupported reports a request that cannot be converted without changing its meaning. The response
// is a 400.
type Unsupported struct { //nolint:errname // it is read as a word: a request is unsupported
	// Field is the path of the client's field: "messages[3].content[0].source".
	Field string
	// Reason is a short reason.
	Reason string
}

// Error names the field and the reason.
func (u *Unsupported) Error() string { return u.Field + ": " + u.Reason }

// Convert converts a request from one format to another. Between equal formats it returns the body
// unread. It returns an [*Unsupported] for a request that cannot be converted, and an error that
// wraps [ErrBody] for a body that is not in the client's format.
func Convert(from, to wire.Format, in Incoming, o Options) (*Outgoing, error) {
	if dialectOf(from) == nil || dialectOf(to) == nil {
		return nil, fmt.Errorf("translate from %q to %q: no such format", from, to)
	}
	if from == to {
		return &Outgoing{Body: &wire.Body{Raw: in.Body}, Path: in.Path, Query: in.Query, IncludeUsage: true}, nil
	}
	if out, ok := in.Turns.convert(from, to, in, o); ok {
		return out, nil
	}
	q, err := Read(from, in)
	if err != nil {
		return nil, err
	}
	return Write(to, q, in, o)
}

// Read reads a request of any format. The result points into in.Body.
func Read(from wire.Format, in Incoming) (*Request, error) { return read(from, in, nil, omitted{}) }

// read is [Read] for a body without known turns.
func read(from wire.Format, in Incoming, known *Turns, without omitted) (*Request, error) {
	index, ok := rawjson.IndexObject(in.Body)
	if !ok {
		return nil, errNotObject
	}
	if dialectOf(from) == nil {
		return nil, fmt.Errorf("translate from %q: no such format", from)
	}
	r := Reader{
		Request: &Request{Format: from, list: without.list}, from: dialectOf(from), index: index, known: known,
		without: without, remember: in.Remember,
	}
	if known != nil {
		r.entries = known.entries
	}
	if err := r.read(in); err != nil {
		return nil, err
	}
	for i := range r.Request.Messages {
		normalize(r.Request.Messages[i].Parts)
	}
	return r.Request, nil
}

// Write writes a request from [Read] in another format.
func Write(to wire.Format, q *Request, in Incoming, o Options) (*Outgoing, error) {
	w := newWriter(to, q, o, len(in.Body))
	if err := w.write(); err != nil {
		return nil, err
	}
	out := w.outgoing(in)
	if in.Remember && len(in.Body) >= minRemembered {
		out.Turns = w.remember(in, q.list, xxh3.NewSeed(turnsSeed))
	}
	return out, nil
}

var errNotObject = fmt.Errorf("%w: not a JSON object, or nested too deeply", ErrBody)

// WellFormed returns an error unless b is one JSON object within the nesting limit.
func WellFormed(b []byte) error {
	if !rawjson.ValidObject(rawjson.View(b)) {
		return errNotObject
	}
	return nil
}
