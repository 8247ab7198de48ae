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

package gemini

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/resource"
)

// asked are the methods of a model that ask it for something other than an answer, or later.
var asked = []string{":batchGenerateContent", ":embedContent", ":batchEmbedContents", ":asyncBatchEmbedContent", ":predict", ":predictLongRunning"}

// Resource implements [resource.Codec]: …/cachedContents, and what models do besides answering.
func (Codec) Resource(path string) (r resource.Resource) {
	if id, part, ok := resource.In(path, "/cachedContents"); ok {
		return resource.Resource{Format: wire.Gemini, ID: id, Part: part, Given: true}
	}
	at := strings.LastIndexByte(path, ':')
	if at < 0 || !strings.Contains(path[:at], "/models/") || !slices.Contains(asked, path[at:]) {
		return r
	}
	return resource.Resource{Format: wire.Gemini, Part: path[at+1:], Given: true}
}

// Deleted implements [resource.Codec].
func (Codec) Deleted(string) []byte { return nil }
