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

package anthropic

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/resource"
)

// Resource implements [resource.Codec]: …/messages/batches.
func (Codec) Resource(path string) (r resource.Resource) {
	id, part, ok := resource.In(path, "/messages/batches")
	if !ok {
		return r
	}
	return resource.Resource{Format: wire.Anthropic, ID: id, Part: part, Given: true}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(string) []byte { return nil }
