// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// toolList is the list of tools of a request, read and written, for the next requests with the same bytes. It is
// immutable.
type toolList struct {
	// raw are the client's bytes. start is their index in the body, end the number of bytes from there to its end.
	raw        rawjson.Value
	start, end int
	// tools point into raw. dropped are the fields dropped of them, entries the entries read.
	tools   []Tool
	dropped []string
	entries int
	// written are the upstream's bytes, empty if the writer's state depends on the tools.
	written []byte
}

func (l *toolList) size() int64 {
	if l == nil {
		return 0
	}
	return int64(int(unsafe.Sizeof(*l)) + len(l.raw) + len(l.tools)*int(unsafe.Sizeof(Tool{})) + len(l.written))
}

// is reports whether a value is the list's own copy of its bytes.
func (l *toolList) is(v rawjson.Value) bool {
	return l != nil && len(v) == len(l.raw) && &v[0] == &l.raw[0]
}

// find returns the index of the same bytes in a body, 0 if they are not in their place before or after the list of
// messages.
func (l *toolList) find(body []byte, list int) int {
	if l == nil {
		return 0
	}
	at := l.start
	if at > list {
		at = len(body) - l.end
	}
	if at <= 0 || len(body)-at < len(l.raw) || !bytes.Equal(body[at:at+len(l.raw)], l.raw) {
		return 0
	}
	return at
}

// ReadTools reads the request's list of tools with read, or takes the same list of the last request. read must not
// depend on the messages, unless they declare [Reader.DependsOnAll].
func (r *Reader) ReadTools(v rawjson.Value, read func(rawjson.Value) error) error {
	if r.known != nil && r.known.tools.is(v) {
		r.addTools(r.known.tools)
		return nil
	}
	if !r.remember || !v.IsArray() {
		return read(v)
	}
	// The tools outlive the body.
	at := r.offset(v)
	l := &toolList{raw: bytes.Clone(v), start: at, end: len(r.index.Text()) - at}
	n, entries := len(r.Request.Tools), r.entries
	if err := read(l.raw); err != nil {
		return err
	}
	l.tools, l.entries = slices.Clip(r.Request.Tools[n:]), r.entries-entries
	for field := range r.Request.dropped {
		if strings.HasPrefix(field, "tools[") {
			l.dropped = append(l.dropped, field)
		}
	}
	r.Request.tools = l
	return nil
}

// addTools adds the tools of the last request.
func (r *Reader) addTools(l *toolList) {
	r.Request.tools = l
	r.Request.Tools = append(r.Request.Tools, l.tools...)
	r.entries += l.entries
	if r.Request.dropped == nil {
		r.Request.dropped = dropped{}
	}
	for _, field := range l.dropped {
		r.Request.dropped.add(field, 0)
	}
}

// EachTool calls write for each tool, or writes the bytes of the last request for the same tools.
func (w *Writer) EachTool(write func(Tool)) {
	if w.knowsTools() && len(w.known.tools.written) > 0 {
		w.Body = append(w.Body, w.known.tools.written...)
		return
	}
	start, drops, marked := len(w.Body), len(w.dropped), false
	for _, t := range w.Tools {
		write(t)
		marked = marked || t.Cache != nil
	}
	// The place of a marker depends on the other ones.
	if !marked && len(w.dropped) == drops {
		w.toolsStart, w.toolsEnd = start, len(w.Body)
	}
}

func (w *Writer) knowsTools() bool {
	return w.known != nil && w.known.tools != nil && w.known.tools == w.Request.tools
}

// rememberTools returns the tools for the next request, nil for none.
func (w *Writer) rememberTools() *toolList {
	if l := w.Request.tools; l != nil && !w.knowsTools() {
		l.written = bytes.Clone(w.Body[w.toolsStart:w.toolsEnd])
	}
	return w.Request.tools
}
