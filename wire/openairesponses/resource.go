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

package openairesponses

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/resource"
)

// Resource implements [resource.Codec]: …/responses/{id}, its input items, and what stops it.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/responses")
	if !ok || id == "" {
		return r
	}
	return resource.Resource{
		Format: wire.OpenAIResponses, ID: id, Part: part, Answer: true, Given: strings.HasPrefix(id, "resp_"), Missing: "Response with id '" + id + "' not found.",
	}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(id string) []byte {
	return append(append([]byte(`{"id":`), rawjson.Quote(id)...), `,"object":"response","deleted":true}`...)
}
