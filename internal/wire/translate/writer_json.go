// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Comma puts a comma between members or elements.
func (w *Writer) Comma() {
	if c := w.Body[len(w.Body)-1]; c != '{' && c != '[' && c != ':' {
		w.Body = append(w.Body, ',')
	}
}

// Key writes a member's name. Names are ours and need no escapes.
func (w *Writer) Key(name string) {
	w.Comma()
	w.Body = append(append(append(w.Body, '"'), name...), `":`...)
}

// Open writes the bracket that begins an object or array.
func (w *Writer) Open(c byte) {
	w.Comma()
	w.Body = append(w.Body, c)
}

// Close writes the bracket that ends one.
func (w *Writer) Close(c byte) { w.Body = append(w.Body, c) }

// Member writes a member with a value that is JSON.
func (w *Writer) Member(name string, v rawjson.Value) {
	w.Key(name)
	w.Body = append(w.Body, v...)
}

// Text writes a member with a text that is already escaped.
func (w *Writer) Text(name string, t rawjson.Text) {
	w.Key(name)
	w.Body = append(append(append(w.Body, '"'), t...), '"')
}

// Str writes a member with a text.
func (w *Writer) Str(name, s string) {
	w.Key(name)
	w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), s), '"')
}

// Bool writes a member.
func (w *Writer) Bool(name string, v bool) {
	w.Key(name)
	w.Body = strconv.AppendBool(w.Body, v)
}

// Int writes a member.
func (w *Writer) Int(name string, n int) {
	w.Key(name)
	w.Body = strconv.AppendInt(w.Body, int64(n), 10)
}

// Quoted writes a member whose value is the text of some JSON.
func (w *Writer) Quoted(name string, v rawjson.Value) {
	w.Key(name)
	w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), v), '"')
}

// Texts writes a member with a list of texts that are escaped already.
func (w *Writer) Texts(name string, list []rawjson.Text) {
	w.Key(name)
	w.Body = append(w.Body, '[')
	for _, t := range list {
		w.Comma()
		w.Body = append(append(append(w.Body, '"'), t...), '"')
	}
	w.Body = append(w.Body, ']')
}
