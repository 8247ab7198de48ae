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

// reader fills a Request.
type reader struct {
	q *Request
}

func (r *reader) read(from wire.Format, in Incoming) error {
	switch from {
	case wire.Anthropic:
		return r.anthropic(in)
	case wire.OpenAIChat:
		return r.chat(in)
	}
	return &Unsupported{Field: "model", Reason: fmt.Sprintf("requests in the format %s are not translated", from)}
}

// drop lists a field that is left out for every other format.
func (r *reader) drop(field string) {
	r.q.dropped = append(r.q.dropped, field)
}
