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

package errand

import (
	"bytes"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/decode"
)

// longestAnswer bounds what is kept of an answer to be read.
const longestAnswer = 64 << 10

// Answer is what came of an errand. It is the writer that takes it.
type Answer struct {
	// Status is the final status, 0 if there was no answer.
	Status int

	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	if status >= http.StatusOK && a.Status == 0 {
		a.Status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *Answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if room := longestAnswer - a.body.Len(); room > 0 {
		a.body.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// Flush implements [http.Flusher].
func (a *Answer) Flush() {}

// Turn reads the answer, in a format.
func (a *Answer) Turn(f wire.Format) *wire.Turn {
	d := decode.New(f, layer.IsStream(layer.MediaType(a.header.Get("Content-Type"))))
	d.Feed(a.body.Bytes())
	d.End()
	return d.Turn()
}
