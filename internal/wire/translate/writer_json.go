// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Comma writes a comma unless it is the first member or element.
func (w *Writer) Comma() {
	if c := w.Body[len(w.Body)-1]; c != '{' && c != '[' && c != ':' {
		w.Body = append(w.Body, ',')
	}
}

// Key writes a member's name. Names are constants without escapes.
func (w *Writer) Key(name string) {
	w.Comma()
	w.Body = append(append(append(w.Body, '"'), name...), `":`...)
}

// Open writes an opening bracket.
func (w *Writer) Open(c byte) {
	w.Comma()
	w.Body = append(w.Body, c)
}

// Close writes a closing bracket.
func (w *Writer) Close(c byte) { w.Body = append(w.Body, c) }

// Member writes a member with a JSON value.
func (w *Writer) Member(name string, v rawjson.Value) {
	w.Key(name)
	w.Body = append(w.Body, v...)
}

// Text writes a member with an escaped text.
func (w *Writer) Text(name string, t rawjson.Text) {
	w.Key(name)
	w.Body = append(append(append(w.Body, '"'), t...), '"')
}

// Str writes a member with a string.
func (w *Writer) Str(name, s string) {
	w.Key(name)
	w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), s), '"')
}

// Bool writes a member with a boolean.
func (w *Writer) Bool(name string, v bool) {
	w.Key(name)
	w.Body = strconv.AppendBool(w.Body, v)
}

// Int writes a member with a number.
func (w *Writer) Int(name string, n int) {
	w.Key(name)
	w.Body = strconv.AppendInt(w.Body, int64(n), 10)
}

// Quoted writes a member with a string that contains JSON.
func (w *Writer) Quoted(name string, v rawjson.Value) {
	w.Key(name)
	w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), v), '"')
}

// Texts writes a member with a list of escaped texts.
func (w *Writer) Texts(name string, list []rawjson.Text) {
	w.Key(name)
	w.Body = append(w.Body, '[')
	for _, t := range list {
		w.Comma()
		w.Body = append(append(append(w.Body, '"'), t...), '"')
	}
	w.Body = append(w.Body, ']')
}
