// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Incoming is a request as the client sent it.
type Incoming struct {
	// Body is the request's body, decoded.
	Body []byte
	// Path is the request's path. In the Gemini format it holds the model and
	// whether the answer is streamed.
	Path string
	// Query is the raw query, without the question mark.
	Query string
}

// Outgoing is a request as the upstream is to get it, and what is needed to
// translate its answer back.
type Outgoing struct {
	// Body is the body to send. It is Incoming.Body itself where both formats
	// are the same, else new memory that [reuse.Recycle] takes back.
	Body []byte
	// Path is the path of the upstream's endpoint. What stood before the
	// client's endpoint stays before it.
	Path string
	// Query is the raw query to send.
	Query string
	// Dropped lists the client's fields that the upstream's format cannot hold,
	// sorted, each once, as paths without content: "messages[].cache_control".
	Dropped []string
	// Names maps the names of tools in the answer back to the client's own.
	Names *Names
	// Stream reports whether the client asked for a streamed answer.
	Stream bool
	// IncludeUsage reports whether a chat client asked for the usage chunk at the
	// end of a stream. It is true for all other formats.
	IncludeUsage bool
	// Empty tells that the client asked for no answer, only that its prompt be
	// cached. Formats that cannot say so are asked for the least, and that is left
	// out.
	Empty bool
	// Model is the model that the client asked for, by its own name.
	Model string
	// Added reports whether the body holds something that [Options.Plain] leaves out.
	Added bool
	// Stop are the client's stop sequences if the upstream's format has none:
	// the answer's text is to be cut before the first of them, see [Stops].
	Stop []string
}

// ErrBody says that a body is not a request of its format. It holds no content.
var ErrBody = errors.New("not a request of this format")

// Unsupported says that a request cannot be put into another format without
// changing its meaning. It is answered with a 400.
type Unsupported struct { //nolint:errname // it is read as a word: a request is unsupported
	// Field is the client's field, as a path: "messages[3].content[0].source".
	Field string
	// Reason says why, in a few words.
	Reason string
}

// Error names the field and the reason.
func (u *Unsupported) Error() string { return u.Field + ": " + u.Reason }

// Convert turns a request of one format into another. Between a format and
// itself nothing is changed or read. It returns an [*Unsupported] for what
// cannot be carried, and an error that wraps [ErrBody] for a body that is not
// of the client's format.
func Convert(from, to wire.Format, in Incoming, o Options) (*Outgoing, error) {
	if dialectOf(from) == nil || dialectOf(to) == nil {
		return nil, fmt.Errorf("translate from %q to %q: no such format", from, to)
	}
	if from == to {
		return &Outgoing{Body: in.Body, Path: in.Path, Query: in.Query, IncludeUsage: true}, nil
	}
	q, err := Read(from, in)
	if err != nil {
		return nil, err
	}
	return Write(to, q, in, o)
}

// Read reads a request of any format. The result points into in.Body.
func Read(from wire.Format, in Incoming) (*Request, error) {
	index, ok := rawjson.IndexObject(in.Body)
	if !ok {
		return nil, errNotObject
	}
	if dialectOf(from) == nil {
		return nil, fmt.Errorf("translate from %q: no such format", from)
	}
	r := Reader{Request: &Request{Format: from}, from: dialectOf(from), index: index}
	if err := r.read(in); err != nil {
		return nil, err
	}
	for i := range r.Request.Messages {
		normalize(r.Request.Messages[i].Parts)
	}
	return r.Request, nil
}

// Write writes a request that Read returned in another format. Of in it uses
// the path.
func Write(to wire.Format, q *Request, in Incoming, o Options) (*Outgoing, error) {
	w := newWriter(to, q, o, len(in.Body))
	if err := w.write(); err != nil {
		return nil, err
	}
	out := &Outgoing{
		Body: w.Body, Names: w.Names, Stream: q.Stream, Stop: w.stop,
		IncludeUsage: q.IncludeUsage, Model: q.Model, Empty: q.FillsCache, Added: w.added,
	}
	out.Path, out.Query = endpoint(q.Format, to, in.Path, w.Model, q.Stream)
	out.Dropped = slices.Sorted(maps.Keys(w.dropped))
	return out, nil
}

var errNotObject = fmt.Errorf("%w: not a JSON object, or nested too deeply", ErrBody)

// WellFormed reports whether a body is one JSON object that is not nested too
// deeply.
func WellFormed(b []byte) error {
	if !rawjson.ValidObject(rawjson.View(b)) {
		return errNotObject
	}
	return nil
}
