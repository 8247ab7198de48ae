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
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// endpoint returns the path and query of the upstream's endpoint, behind
// whatever prefix the client's endpoint stood.
func endpoint(from, to wire.Format, path, model string, stream bool) (string, string) {
	prefix := prefixOf(from, path)
	switch to {
	case wire.Anthropic:
		return prefix + "/v1/messages", ""
	case wire.OpenAIChat:
		return prefix + "/v1/chat/completions", ""
	case wire.OpenAIResponses:
		return prefix + "/v1/responses", ""
	}
	prefix += "/v1beta/models/" + strings.TrimPrefix(model, "models/")
	if stream {
		return prefix + ":streamGenerateContent", "alt=sse"
	}
	return prefix + ":generateContent", ""
}

func prefixOf(from wire.Format, path string) string {
	var ends []string
	switch from {
	case wire.Anthropic:
		ends = []string{"/v1/messages"}
	case wire.OpenAIChat:
		ends = []string{"/v1/chat/completions", "/chat/completions"}
	case wire.OpenAIResponses:
		ends = []string{"/v1/responses", "/responses"}
	case wire.Gemini:
		for _, version := range []string{"/v1beta/", "/v1beta1/", "/v1alpha/", "/v1/", "/models/"} {
			if i := strings.LastIndex(path, version); i >= 0 {
				return path[:i]
			}
		}
	}
	for _, end := range ends {
		if p, ok := strings.CutSuffix(path, end); ok {
			return p
		}
	}
	return ""
}
