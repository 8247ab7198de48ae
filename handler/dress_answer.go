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

package handler

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// renamedAnswer passes an answer of chat completions on in which thinking goes by
// the name reasoning, and calls it reasoning_content. Lines pass as soon as
// they are complete; a JSON answer is held until it is.
type renamedAnswer struct {
	*caddyhttp.ResponseWriterWrapper
	held   []byte // an unfinished line, or a JSON answer
	status int
	stream bool
	json   bool
}

func newRenamedAnswer(w http.ResponseWriter) *renamedAnswer {
	return &renamedAnswer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
}

// WriteHeader decides, once, how the answer is dealt with.
func (a *renamedAnswer) WriteHeader(status int) {
	if status < http.StatusOK {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	if a.status != 0 {
		return
	}
	a.status = status
	h := a.Header()
	if status/100 == 2 && contentCoding(h) == "" {
		kind := mediaType(h.Get("Content-Type"))
		a.stream, a.json = kind == "text/event-stream", isJSON(kind)
	}
	if a.json {
		return
	}
	if a.stream {
		delete(h, "Content-Length")
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *renamedAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.json:
		a.held = append(a.held, p...)
		if len(a.held) <= largestAnswer {
			return len(p), nil
		}
		a.json = false // it goes as it is
		a.ResponseWriter.WriteHeader(a.status)
		return len(p), a.flush(a.held)
	case !a.stream:
		return a.ResponseWriter.Write(p)
	}
	n := len(p)
	end := bytes.LastIndexAny(p, "\r\n") + 1
	if end == 0 {
		if a.held = append(a.held, p...); len(a.held) > largestAnswer {
			a.stream = false
			return n, a.flush(a.held)
		}
		return n, nil
	}
	lines := p[:end]
	if len(a.held) > 0 {
		lines = append(a.held, lines...)
	}
	rest := bytes.Clone(p[end:])
	if bytes.Contains(lines, []byte(`"reasoning"`)) {
		var out []byte
		for len(lines) > 0 {
			n := bytes.IndexAny(lines, "\r\n") + 1 // the last one is whole
			out = appendRenamed(out, lines[:n], "choices.0.delta")
			lines = lines[n:]
		}
		lines = out
	}
	err := a.flush(lines)
	a.held = rest
	return n, err
}

func (a *renamedAnswer) flush(p []byte) error {
	a.held = nil
	_, err := a.ResponseWriter.Write(p)
	return err
}

// appendRenamed appends a JSON text, or a line of an event with one, in which the
// object at a path calls reasoning by its other name.
func appendRenamed(out, line []byte, at string) []byte {
	start := bytes.IndexByte(line, '{')
	if start < 0 {
		return append(out, line...)
	}
	object := gjson.GetBytes(line[start:], at)
	value := object.Get(reasoningAlias)
	if !value.Exists() || value.Index == 0 || object.Get(reasoningContent).Exists() {
		return append(out, line...)
	}
	key := bytes.LastIndex(line[:start+value.Index], []byte(`"`+reasoningAlias+`"`))
	if key < 0 {
		return append(out, line...)
	}
	out = append(out, line[:key]...)
	out = append(out, `"`+reasoningContent+`"`...)
	return append(out, line[key+len(reasoningAlias)+2:]...)
}

// ReadFrom hides the inner writer's, which would get round Write.
func (a *renamedAnswer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{a}, r)
}

// FlushError implements what http.ResponseController looks for. What is held
// stays held.
func (a *renamedAnswer) FlushError() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.json {
		return nil
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// finish ends an answer that has not been cut.
func (a *renamedAnswer) finish() error {
	if a.json {
		a.json = false
		a.held = appendRenamed(nil, a.held, "choices.0.message")
		if h := a.Header(); len(h["Content-Length"]) > 0 {
			h["Content-Length"] = []string{strconv.Itoa(len(a.held))}
		}
		trailers := takeTrailers(a.Header())
		defer func() { maps.Copy(a.Header(), trailers) }()
		a.ResponseWriter.WriteHeader(a.status)
	}
	if len(a.held) > 0 {
		return a.flush(a.held)
	}
	return nil
}

// spill gives the client what there is of an answer that was cut, as it came.
func (a *renamedAnswer) spill() {
	if a.json {
		a.json = false
		a.ResponseWriter.WriteHeader(a.status)
	}
	if len(a.held) > 0 {
		_ = a.flush(a.held)
	}
}
