// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Numbered intercepts answers in a format whose events are each of one entry, by its number.
// The format embeds it in its [Interception].
type Numbered struct {
	*Message
	// Type and Index are the members of an event that name it and number its entry.
	Type, Index string
	// End returns the event by which the client's message ends, in place of the upstream's
	// last event, nil where the client gets that as it is.
	End func(last Event) []byte
}

// Of implements [Interception].
func (r *Numbered) Of(f Event) *Entry {
	if index := f.Root.Get(r.Index); index.Exists() {
		return r.entry(index.Int())
	}
	return nil
}

// Event implements [Interception]. What an answer says of itself as a whole the client has
// from the first one, and what it cost from the last.
func (r *Numbered) Event(f Event) {
	further := len(r.Past) > 0
	switch {
	case r.Stopped:
		if r.Settle(); !r.Asks(f) {
			r.end(f)
		}
	case r.Held, further && r.Names:
	case further && r.counted:
		r.end(f)
	default:
		r.show(f)
	}
}

// end puts out an event at the end of the client's message.
func (r *Numbered) end(f Event) {
	if data := r.End(f); data != nil {
		r.Put(f.Root.Get(r.Type).Str, data)
		return
	}
	r.by.Tell(f, nil)
}

// show puts out an event that is of an entry, or of none.
func (r *Numbered) show(f Event) {
	index := f.Root.Get(r.Index)
	e := r.entry(index.Int())
	switch {
	case !index.Exists():
		r.by.Tell(f, nil)
	case e != nil:
		text := ""
		if len(r.Pieces) > 0 {
			text = r.Pieces[0].Text
		}
		r.Show(e, f, text)
	case r.Full:
		r.by.Tell(f, &Entry{Index: index.Int(), Client: int(index.Int()) + r.Shift()})
	default:
		r.by.Tell(f, nil)
	}
}

// Renumber puts an event out under the client's number of its entry, and with other members
// that are given.
func (r *Numbered) Renumber(f Event, e *Entry, with map[string][]byte) {
	if e != nil && int64(e.Client) != e.Index {
		if with == nil {
			with = make(map[string][]byte, 1)
		}
		with[r.Index] = strconv.AppendInt(nil, int64(e.Client), 10)
	}
	if with == nil && f.Raw != nil {
		r.Pass(f.Event)
		return
	}
	r.Put(f.Root.Get(r.Type).Str, rawjson.Rewrite(f.Root, nil, with))
}
