// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Numbered implements most of [Interception] for formats with one numbered entry per event. The
// format embeds it.
type Numbered struct {
	*Message
	// Type and Index are the event's members with its name and with the number of its entry.
	Type, Index string
	// End returns the last event of the client's message in place of the upstream's, nil to forward
	// that one.
	End func(last Event) []byte
}

// Of implements [Interception].
func (r *Numbered) Of(f Event) *Entry {
	if index := f.Root.Get(r.Index); index.Exists() {
		return r.entry(index.Int())
	}
	return nil
}

// Event implements [Interception].
func (r *Numbered) Event(f Event) {
	// The client has the message's header from the first answer and gets the usage with the last
	// one.
	further := len(r.Past) > 0
	switch {
	case r.Stopped:
		if r.FinishEntries(); !r.Asks(f) {
			r.end(f)
		}
	case r.Buffered, further && r.Names:
	case further && r.counted:
		r.end(f)
	default:
		r.show(f)
	}
}

// end writes an event at the end of the client's message.
func (r *Numbered) end(f Event) {
	if data := r.End(f); data != nil {
		r.Put(f.Root.Get(r.Type).Str, data)
		return
	}
	r.by.Tell(f, nil)
}

// show writes an event of an entry, or of none.
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
		// The entry is not remembered, but its number still has to be shifted.
		r.by.Tell(f, &Entry{Index: index.Int(), Client: int(index.Int()) + r.Shift()})
	default:
		r.by.Tell(f, nil)
	}
}

// Renumber writes an event under the client's number of its entry, with the given members replaced.
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
