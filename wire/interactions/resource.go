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

package interactions

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/resource"
)

// Resource implements [resource.Codec]: …/interactions/{id}, and what stops it.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/interactions")
	if !ok || id == "" {
		return r
	}
	return resource.Resource{
		Format: wire.Interactions, ID: id, Part: part, Answer: true, Given: strings.HasPrefix(id, "v1_"), Missing: "The interaction '" + id + "' was not found.",
	}
}

// Deleted implements [resource.Codec]: the API answers with an object without members.
func (Codec) Deleted(string) []byte { return []byte("{}") }
