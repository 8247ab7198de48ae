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

package translate

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// writer makes a body out of a Request.
type writer struct {
	b       []byte
	to      wire.Format
	q       *Request
	o       Options
	names   *Names
	model   string
	stop    []string
	dropped []string
}

func newWriter(to wire.Format, q *Request, o Options) *writer {
	w := &writer{to: to, q: q, o: o, names: newNames(to, o.NameLimit), model: q.Model, dropped: append([]string(nil), q.dropped...)}
	if o.Model != nil {
		w.model = o.Model(q.Model)
	}
	for _, t := range q.Tools {
		w.names.upstream(t.ToolName)
	}
	return w
}

func (w *writer) write() error {
	return fmt.Errorf("translate to %q: no such format", w.to)
}
